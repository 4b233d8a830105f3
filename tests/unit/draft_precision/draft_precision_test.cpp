// What a request for a draft precision means, and what is chosen for a device before anything is loaded.
#include "speculative/draft_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/ops/argmax.h"
#include "core/ops/linear.h"
#include "core/ops/quantize.h"
#include "models/synth.h"

namespace foretoken {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Choice = DraftLmHead::Choice;

template <class Fn>
std::string error_of(ErrorCode code, const Fn& fn) {
  try {
    fn();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

/// A device that says what a test wants and does nothing.
class SayingDevice final : public GpuBackend {
 public:
  SayingDevice() {
    says.device_name = "Test Device";
    says.weight_formats = {{.format = WeightFormat::kF32}, {.format = WeightFormat::kBF16}, {.format = WeightFormat::kFp8Block}};
  }

  void refuse(WeightFormat format, const std::string& storable, const std::string& fast) {
    std::erase_if(says.weight_formats, [format](const WeightFormatSupport& support) { return support.format == format; });
    WeightFormatSupport support{.format = format};
    if (!storable.empty()) support.storable = Availability::no(storable);
    if (!fast.empty()) support.fast = Availability::no(fast);
    says.weight_formats.push_back(support);
  }
  template <class Op>
  void add() {
    table.add<Op>("all", [](CommandList&, const Op&) {});
  }

  [[nodiscard]] const Capabilities& capabilities() const override { return says; }
  [[nodiscard]] Buffer allocate(size_t /*bytes*/, MemoryKind /*kind*/) override { return {}; }
  [[nodiscard]] size_t allocated_bytes() const override { return 0; }
  [[nodiscard]] std::unique_ptr<Stream> create_stream() override { return nullptr; }
  [[nodiscard]] std::unique_ptr<Event> create_event() override { return nullptr; }
  [[nodiscard]] Program record(std::string_view /*label*/, const RecordFn& /*fn*/) override { return {}; }
  [[nodiscard]] const OpTable& ops() const override { return table; }

  Capabilities says;
  OpTable table;
};

/// The plan of a model that is never loaded.
std::unique_ptr<WeightPlan> plan_of(const std::string& spec) {
  const SynthSource source(parse_synth_spec(spec));
  return plan_weights(source, source.config());
}

constexpr const char* kDense = "synth:qwen3.5-0.8b:layers=1";
constexpr const char* kMoe = "synth:qwen3.5-35b-a3b:layers=1";
const DraftLmHead kCheckpoint{.choice = Choice::kCheckpoint};

TEST(DraftPrecisionNames, AreReadInAnyCaseWithOneAlias) {
  EXPECT_EQ(parse_draft_precision("auto"), std::nullopt);
  EXPECT_EQ(parse_draft_precision("BF16"), WeightFormat::kBF16);
  EXPECT_EQ(parse_draft_precision("fp8"), WeightFormat::kFp8Block);
  EXPECT_EQ(parse_draft_precision("Fp8"), WeightFormat::kFp8Block);
  EXPECT_EQ(parse_draft_precision("nvfp4"), WeightFormat::kNvfp4);
  EXPECT_EQ(parse_draft_precision("NvFP4"), WeightFormat::kNvfp4);
  EXPECT_EQ(parse_draft_precision("FP4"), WeightFormat::kNvfp4);

  EXPECT_EQ(parse_draft_lm_head("AUTO").choice, Choice::kAuto);
  EXPECT_EQ(parse_draft_lm_head("CheckPoint").choice, Choice::kCheckpoint);
  EXPECT_EQ(parse_draft_lm_head("fp4").choice, Choice::kCopy);
  EXPECT_EQ(parse_draft_lm_head("fp4").format, WeightFormat::kNvfp4);
  EXPECT_EQ(parse_draft_lm_head("BF16").format, WeightFormat::kBF16);
}

TEST(DraftPrecisionNames, WrongOnesListTheRightOnes) {
  for (const char* name : {"", "int8", "fp8 ", "bf-16", "checkpoint", "f32"}) {
    const std::string message = error_of(ErrorCode::kInvalidArgument, [&] { static_cast<void>(parse_draft_precision(name)); });
    EXPECT_THAT(message, AllOf(HasSubstr("auto, bf16, fp8, nvfp4"), HasSubstr("fp4"), HasSubstr(std::string("'") + name + "'")));
  }
  const std::string message = error_of(ErrorCode::kInvalidArgument, [] { static_cast<void>(parse_draft_lm_head("int4")); });
  EXPECT_THAT(message, AllOf(HasSubstr("auto, checkpoint, bf16, fp8, nvfp4"), HasSubstr("'int4'")));
}

TEST(DraftPrecisionNames, AreWhatTheParsersTake) {
  for (const char* name : {"auto", "bf16", "fp8", "nvfp4"}) {
    EXPECT_EQ(draft_precision_name(parse_draft_precision(name)), name);
    EXPECT_EQ(draft_precision_name(parse_draft_lm_head(name)), name);
  }
  EXPECT_EQ(draft_precision_name(kCheckpoint), "checkpoint");
  EXPECT_EQ(draft_precision_name(WeightFormat::kFp8Row), "fp8-row");
}

TEST(EffectivePrecision, CountsNvfp4OnADenseHeadAsBf16AndTheRestAsItself) {
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kFp8Row, WeightFormat::kFp8Block}) {
    EXPECT_EQ(effective_precision(format, true), format);
    EXPECT_EQ(effective_precision(format, false), format);
  }
  EXPECT_EQ(effective_precision(WeightFormat::kNvfp4, true), WeightFormat::kBF16);
  EXPECT_EQ(effective_precision(WeightFormat::kNvfp4, false), WeightFormat::kNvfp4);
}

TEST(EffectivePrecision, EveryPrecisionSupportsDrafterPrefill) {
  for (const WeightFormat format :
       {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kFp8Row, WeightFormat::kFp8Block, WeightFormat::kNvfp4}) {
    EXPECT_TRUE(supports_drafter_prefill(effective_precision(format, true)));
    EXPECT_TRUE(supports_drafter_prefill(effective_precision(format, false)));
  }
}

TEST(ChooseDraftFormats, AutoKeepsTheHeadAsItIs) {
  const SayingDevice device;
  for (const char* spec : {kDense, kMoe}) {
    const DraftFormats formats = choose_draft_formats(device, *plan_of(spec), {.lm_head = kCheckpoint});
    EXPECT_FALSE(formats.linears || formats.fc || formats.experts || formats.lm_head);
    EXPECT_THAT(formats.lm_head_reason, IsEmpty());
  }
}

TEST(ChooseDraftFormats, ExpertsFollowTheLinearsUnlessNamed) {
  const SayingDevice device;
  const auto plan = plan_of(kMoe);
  DraftPrecision wanted{.linears = WeightFormat::kFp8Block, .lm_head = kCheckpoint};
  EXPECT_EQ(choose_draft_formats(device, *plan, wanted).experts, WeightFormat::kFp8Block);
  EXPECT_EQ(choose_draft_formats(device, *plan, wanted).fc, std::nullopt);
  wanted.experts = WeightFormat::kBF16;
  EXPECT_EQ(choose_draft_formats(device, *plan, wanted).experts, WeightFormat::kBF16);
  EXPECT_EQ(choose_draft_formats(device, *plan, wanted).linears, WeightFormat::kFp8Block);
  wanted = {.experts = WeightFormat::kFp8Block, .lm_head = kCheckpoint};
  EXPECT_EQ(choose_draft_formats(device, *plan, wanted).linears, std::nullopt);
}

TEST(ChooseDraftFormats, WhatTheDeviceCannotUseIsRefusedWithItsReason) {
  SayingDevice device;
  device.refuse(WeightFormat::kNvfp4, "no table lookups", "");
  const auto plan = plan_of(kMoe);
  const DraftLmHead copy{.choice = Choice::kCopy, .format = WeightFormat::kNvfp4};
  for (const DraftPrecision& wanted :
       {DraftPrecision{.linears = WeightFormat::kNvfp4}, DraftPrecision{.fc = WeightFormat::kNvfp4},
        DraftPrecision{.experts = WeightFormat::kNvfp4}, DraftPrecision{.lm_head = copy}}) {
    const std::string message =
        error_of(ErrorCode::kUnsupported, [&] { static_cast<void>(choose_draft_formats(device, *plan, wanted)); });
    EXPECT_THAT(message, AllOf(HasSubstr("Test Device"), HasSubstr("no table lookups"), HasSubstr("nvfp4"),
                               HasSubstr("f32, bf16, fp8-block")));
  }
}

TEST(ChooseDraftFormats, Nvfp4NeedsColumnsInGroupsOf16) {
  SayingDevice device;
  device.says.weight_formats.push_back({.format = WeightFormat::kNvfp4});
  const auto plan = plan_of(kDense);
  for (PlannedTensor& tensor : plan->tensors) {
    if (tensor.draft && tensor.part == WeightPart::kFc) tensor.shape = {tensor.shape[0], 2040};
  }
  const std::string message = error_of(ErrorCode::kInvalidArgument, [&] {
    static_cast<void>(choose_draft_formats(device, *plan, {.fc = WeightFormat::kNvfp4, .lm_head = kCheckpoint}));
  });
  EXPECT_THAT(message, AllOf(HasSubstr("mtp.fc.weight"), HasSubstr("16"), HasSubstr("2040")));
  EXPECT_NO_THROW(
      static_cast<void>(choose_draft_formats(device, *plan, {.linears = WeightFormat::kNvfp4, .lm_head = kCheckpoint})));
}

TEST(ChooseDraftFormats, ACopyOfTheLmHeadInItsOwnFormatIsTheLmHead) {
  const SayingDevice device;
  const auto plan = plan_of(kDense);
  DraftPrecision wanted{.lm_head = {.choice = Choice::kCopy, .format = WeightFormat::kBF16}};
  EXPECT_EQ(choose_draft_formats(device, *plan, wanted).lm_head, std::nullopt);
  wanted.lm_head.format = WeightFormat::kFp8Block;
  EXPECT_EQ(choose_draft_formats(device, *plan, wanted).lm_head, WeightFormat::kFp8Block);
}

class AutomaticLmHead : public ::testing::Test {
 protected:
  AutomaticLmHead() {
    device_.add<QuantizeFp8Block>();
    device_.add<LinearArgmax>();
  }
  [[nodiscard]] DraftFormats choose(const char* spec = kDense) const { return choose_draft_formats(device_, *plan_of(spec), {}); }
  void expect_shared(const DraftFormats& formats, const char* reason) const {
    EXPECT_EQ(formats.lm_head, std::nullopt);
    EXPECT_THAT(formats.lm_head_reason, HasSubstr(reason));
  }

  SayingDevice device_;
};

TEST_F(AutomaticLmHead, IsAnFp8CopyWhereFp8IsFast) {
  for (const char* spec : {kDense, kMoe}) {  // tied and not
    EXPECT_EQ(choose(spec).lm_head, WeightFormat::kFp8Block);
    EXPECT_THAT(choose(spec).lm_head_reason, HasSubstr("FP8 copy"));
  }
}

TEST_F(AutomaticLmHead, IsTheCheckpointsWhereFp8IsSlowOrAbsent) {
  device_.refuse(WeightFormat::kFp8Block, "", "decoding it costs more than reading BF16");
  expect_shared(choose(), "decoding it costs more than reading BF16");
  device_.refuse(WeightFormat::kFp8Block, "no FP8 kernels", "no FP8 kernels");
  expect_shared(choose(), "no FP8 kernels");
}

TEST_F(AutomaticLmHead, IsTheCheckpointsWithoutKernels) {
  device_.table = {};
  expect_shared(choose(), "no implementation");
  device_.add<QuantizeFp8Block>();
  device_.table.add<LinearArgmax>(
      "picky", [](CommandList&, const LinearArgmax&) {}, [](const LinearArgmax&) { return Availability::no("wants BF16"); });
  expect_shared(choose(), "wants BF16");
}

TEST_F(AutomaticLmHead, IsTheCheckpointsWhenThatIsQuantised) {
  const auto plan = plan_of(kMoe);
  for (PlannedTensor& tensor : plan->tensors) {
    if (tensor.part == WeightPart::kLmHead) tensor.format = WeightFormat::kNvfp4;
  }
  expect_shared(choose_draft_formats(device_, *plan, {}), "nvfp4 already");
}

}  // namespace
}  // namespace foretoken
