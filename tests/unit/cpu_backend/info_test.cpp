#include "backends/cpu/cpu_info.h"

#include <gtest/gtest.h>

#include <functional>

#include "backends/cpu/cpu_provider.h"
#include "core/error.h"

namespace foretoken::cpu {
namespace {

ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::kInternalError;
}

TEST(SelectIsa, TakesTheBestUnlessForced) {
  EXPECT_EQ(select_isa(nullptr), best_isa());
  EXPECT_EQ(select_isa(""), best_isa());
  EXPECT_EQ(select_isa("scalar"), Isa::kScalar);
  if (best_isa() >= Isa::kAvx2) {
    EXPECT_EQ(select_isa("avx2"), Isa::kAvx2);
  }
}

TEST(SelectIsa, RefusesWhatIsUnknownOrAbsent) {
  EXPECT_EQ(code_of([] { static_cast<void>(select_isa("neon")); }), ErrorCode::kInvalidArgument);
  if (best_isa() < Isa::kAvx512) {
    EXPECT_EQ(code_of([] { static_cast<void>(select_isa("avx512")); }), ErrorCode::kUnsupported);
  }
}

TEST(CpuCapabilities, GiveAReasonForEachNo) {
  const Capabilities caps = cpu_capabilities(Isa::kScalar, 3);
  EXPECT_EQ(caps.backend, "cpu");
  EXPECT_FALSE(caps.device_name.empty());
  EXPECT_EQ(caps.instruction_set, "scalar");
  EXPECT_EQ(caps.num_compute_units, 3U);
  EXPECT_TRUE(caps.weight_format(WeightFormat::kF32).storable);
  EXPECT_TRUE(caps.weight_format(WeightFormat::kBF16).storable);
  EXPECT_FALSE(caps.bf16_prefill);
  for (const WeightFormatSupport& support : caps.weight_formats) {
    EXPECT_TRUE(support.storable || !support.storable.reason().empty());
  }
}

TEST(CpuCapabilities, FormatsFollowTheInstructionSet) {
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni}) {
    const Capabilities caps = cpu_capabilities(isa, 1);
    for (const WeightFormat format : {WeightFormat::kFp8Row, WeightFormat::kFp8Block}) {
      EXPECT_TRUE(caps.weight_format(format).storable);
      EXPECT_EQ(bool(caps.weight_format(format).fast), isa != Isa::kScalar);
      EXPECT_FALSE(caps.weight_format(format).native);
    }
    EXPECT_EQ(bool(caps.weight_format(WeightFormat::kNvfp4).storable), isa != Isa::kScalar);
    EXPECT_EQ(bool(caps.weight_format(WeightFormat::kNvfp4).fast), isa != Isa::kScalar);
  }
  const Availability nvfp4 = cpu_capabilities(Isa::kScalar, 1).weight_format(WeightFormat::kNvfp4).storable;
  EXPECT_NE(nvfp4.reason().find("needs AVX2"), std::string::npos) << nvfp4.reason();
}

TEST(CpuProvider, RefusesASecondDevice) {
  const auto provider = make_cpu_provider();
  EXPECT_EQ(provider->devices().size(), 1U);
  EXPECT_EQ(code_of([&] { static_cast<void>(provider->open(1, {})); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { static_cast<void>(provider->open(0, {.num_threads = -1})); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { static_cast<void>(provider->open(0, {.num_threads = 100000})); }), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace foretoken::cpu
