// What may not differ from device to device: acceptance (field report 22), and what a verify step is made of, however many rows
// it has (field report 23).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "test_model.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

/// Of rounds that drafted kDepth tokens, the shares whose first j drafts held.
constexpr int64_t kDepth = 4;
constexpr int64_t kNumPrompts = 12;

std::vector<double> golden_acceptance(const std::string& checkpoint) {
  std::ifstream file(data_path("golden/" + checkpoint + ".json"));
  const nlohmann::json golden = nlohmann::json::parse(file);
  SpeculationStats stats;
  for (size_t i = 0; i < kNumPrompts; ++i) {
    const auto rounds = golden["prompts"][i]["accepted_per_round"][std::to_string(kDepth)].get<std::vector<int64_t>>();
    stats.accepted_per_round.insert(stats.accepted_per_round.end(), rounds.begin(), rounds.end());
  }
  return stats.acceptance_by_position(kDepth);
}

void expect_golden_acceptance(GpuBackend& backend, const std::string& checkpoint) {
  TestModel model(backend, checkpoint, {.max_seq_len = 400, .max_drafts = kDepth});
  const Golden golden(checkpoint + ".golden.safetensors");
  SpeculationStats stats;
  for (int64_t i = 0; i < kNumPrompts; ++i) {
    const auto rounds = model.generate(golden.i32("prompt_" + std::to_string(i)), kDepth).speculation.accepted_per_round;
    stats.accepted_per_round.insert(stats.accepted_per_round.end(), rounds.begin(), rounds.end());
  }
  const std::vector<double> expected = golden_acceptance(checkpoint);
  const std::vector<double> got = stats.acceptance_by_position(kDepth);
  for (size_t j = 0; j < expected.size(); ++j) EXPECT_NEAR(got[j], expected[j], 0.02) << checkpoint << ", draft " << j + 1;
}

class InstructionSetAcceptance : public ::testing::TestWithParam<std::string> {
 protected:
  ~InstructionSetAcceptance() override { unsetenv("FORETOKEN_CPU_ISA"); }
};

TEST_P(InstructionSetAcceptance, IsThatOfTheReference) {
  setenv("FORETOKEN_CPU_ISA", GetParam().c_str(), 1);
  std::unique_ptr<GpuBackend> backend;
  try {
    backend = open_cpu();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  for (const char* checkpoint : {"tiny-dense", "tiny-moe"}) expect_golden_acceptance(*backend, checkpoint);
}

INSTANTIATE_TEST_SUITE_P(Isas, InstructionSetAcceptance, ::testing::Values("scalar", "avx2", "avx512", "avx512_vnni"),
                         [](const auto& instance) { return instance.param; });

TEST(DeviceAcceptance, IsThatOfTheReference) {
  const auto backend = open_test_device();
  for (const char* checkpoint : {"tiny-dense", "tiny-moe"}) expect_golden_acceptance(*backend, checkpoint);
}

/// Another device that notes how many launches each recorded Program has, and counts allocations.
class NotedDevice final : public GpuBackend {
 public:
  explicit NotedDevice(std::unique_ptr<GpuBackend> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] const Capabilities& capabilities() const override { return inner_->capabilities(); }
  [[nodiscard]] Buffer allocate(size_t bytes, MemoryKind kind) override {
    ++num_allocations_;
    return inner_->allocate(bytes, kind);
  }
  [[nodiscard]] size_t allocated_bytes() const override { return inner_->allocated_bytes(); }
  [[nodiscard]] std::unique_ptr<Stream> create_stream() override { return inner_->create_stream(); }
  [[nodiscard]] std::unique_ptr<Event> create_event() override { return inner_->create_event(); }
  [[nodiscard]] Program record(std::string_view label, const RecordFn& fn) override {
    Program program = inner_->record(label, fn);
    launches_[std::string(label)] = program.body().num_launches();
    return program;
  }
  [[nodiscard]] const OpTable& ops() const override { return inner_->ops(); }

  [[nodiscard]] const std::map<std::string, size_t>& launches() const { return launches_; }
  [[nodiscard]] size_t num_allocations() const { return num_allocations_; }

 private:
  std::unique_ptr<GpuBackend> inner_;
  std::map<std::string, size_t> launches_;
  size_t num_allocations_ = 0;
};

TEST(CpuVerifyStep, HasAsManyLaunchesForAnyNumberOfRows) {
  for (const char* checkpoint : {"tiny-dense", "tiny-moe"}) {
    NotedDevice device(open_cpu());
    TestModel model(device, checkpoint, {.max_seq_len = 200, .max_drafts = 15});
    const Golden golden(std::string(checkpoint) + ".golden.safetensors");
    for (int64_t depth = 1; depth <= 15; ++depth) static_cast<void>(model.generate(golden.i32("prompt_25"), depth, 3));
    size_t num_steps = 0;
    const size_t expected = device.launches().at("verify, 2 rows of 1");
    for (const auto& [label, launches] : device.launches()) {
      if (!label.starts_with("verify")) continue;
      EXPECT_EQ(launches, expected) << checkpoint << ", " << label;
      ++num_steps;
    }
    EXPECT_EQ(num_steps, 15U);
  }
}

/// Each is one of the driver's, of which a Vulkan device may allow 4,096.
TEST(Allocations, AreFewHoweverManyLayersAModelHas) {
  std::vector<size_t> counts;
  for (const char* spec : {"synth:qwen3.5-0.8b:layers=1", "synth:qwen3.5-0.8b:layers=8"}) {
    NotedDevice device(open_cpu());
    TestModel model(device, spec, {.max_seq_len = 64, .keep_logits = true});
    static_cast<void>(model.generator());
    counts.push_back(device.num_allocations());
  }
  EXPECT_EQ(counts[0], counts[1]);
  EXPECT_LT(counts[0], 64U);
}

}  // namespace
}  // namespace foretoken::test
