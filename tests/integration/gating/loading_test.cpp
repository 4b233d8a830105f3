// Checkpoints in formats that a device does not store: the error says which tensor, why, and what would work; no memory stays.
#include <gmock/gmock.h>

#include "gated_cpu.h"
#include "models/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/unit/checkpoint/quantised_checkpoint.h"
#include "tests/unit/checkpoint/test_files.h"

namespace foretoken::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal_of_loading(GpuBackend& backend, const std::filesystem::path& folder) {
  const std::string message =
      refusal_of([&] { static_cast<void>(load_model(backend, Checkpoint(folder), load_model_config(folder))); });
  EXPECT_EQ(backend.allocated_bytes(), 0U);
  return message;
}

TEST(Loading, OfNvfp4IsRefusedForTheOneTensorThatHasIt) {
  EditableCheckpoint checkpoint(data_path("tiny-dense"));
  const std::string base = linears(checkpoint, "model.", {"down_proj"}).back();
  quantise(checkpoint, base, Stored::kNvfp4ModelOpt, 5);
  const TemporaryFolder folder;
  checkpoint.write(folder.path());

  const auto backend = gated_cpu(without_nvfp4());
  EXPECT_THAT(refusal_of_loading(*backend, folder.path()),
              AllOf(HasSubstr("tensor " + base + ".weight"), HasSubstr("device without NVFP4"), HasSubstr("no unit for nvfp4"),
                    HasSubstr("expected f32, bf16, fp8-row, fp8-block"), HasSubstr("got nvfp4")));
  const auto cpu = open_cpu();
  if (!cpu->capabilities().weight_format(WeightFormat::kNvfp4).storable) return;
  EXPECT_NO_THROW(static_cast<void>(load_model(*cpu, Checkpoint(folder.path()), load_model_config(folder.path()))));
}

TEST(Loading, OfFp8IsRefusedWithTensorReasonAndUsableFormats) {
  const auto backend =
      gated_cpu({.device_name = "device without FP8", .not_storable = {WeightFormat::kFp8Row, WeightFormat::kFp8Block}});
  EXPECT_THAT(refusal_of_loading(*backend, data_path("tiny-next-fp8")),
              AllOf(HasSubstr("tiny-next-fp8"), HasSubstr("tensor model.layers.0."), HasSubstr("device without FP8"),
                    HasSubstr("no unit for fp8-block"), HasSubstr("expected f32, bf16"), HasSubstr("got fp8-block")));
}

TEST(Loading, OfAnythingIsRefusedByADeviceThatStoresNothing) {
  const auto backend = gated_cpu(stores_nothing());
  for (const char* name : {"tiny-dense", "tiny-moe", "tiny-next-fp8"}) {
    EXPECT_THAT(refusal_of_loading(*backend, data_path(name)),
                AllOf(HasSubstr("device for nothing"), HasSubstr("none: this device stores no weights")));
  }
}

TEST(Loading, OfFp8RunsOnADeviceForFp8) {
  const auto backend = gated_cpu(fp8_only());
  const Golden golden("tiny-next-fp8.golden.safetensors");
  TestModel model(*backend, "tiny-next-fp8");
  for (const int64_t depth : {0, 3})
    EXPECT_EQ(model.generate(golden.i32("prompt_0"), depth).output_token_ids, golden.i32("greedy_0"));
}

}  // namespace
}  // namespace foretoken::test
