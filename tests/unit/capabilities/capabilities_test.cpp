// What a device says about weight formats, and the error that follows from a "no".
#include "backends/capabilities.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace foretoken {
namespace {

Capabilities some_device() {
  Capabilities device;
  device.device_name = "Some Device 3000";
  const Availability no = Availability::no("no FP4 unit");
  device.weight_formats = {{.format = WeightFormat::kBF16},
                           {.format = WeightFormat::kNvfp4, .storable = no, .fast = no, .native = no},
                           {.format = WeightFormat::kFp8Block, .native = Availability::no("no FP8 unit")}};
  return device;
}

TEST(Capabilities, ListTheFormatsThatCanBeStored) {
  EXPECT_EQ(some_device().usable_formats(), "bf16, fp8-block");
  EXPECT_EQ(Capabilities{}.usable_formats(), "none: this device stores no weights");
}

TEST(Capabilities, AFormatThatIsNotListedIsNotStorableForAReason) {
  const WeightFormatSupport support = some_device().weight_format(WeightFormat::kFp8Row);
  EXPECT_FALSE(support.storable);
  EXPECT_FALSE(support.fast);
  EXPECT_FALSE(support.native);
  EXPECT_EQ(support.storable.reason(), "not implemented by this backend");
}

TEST(Capabilities, AllowWhatIsStorableEvenWhenItIsNotNative) {
  EXPECT_NO_THROW(some_device().require_storable(WeightFormat::kFp8Block, "tensor w", "file"));
}

TEST(Capabilities, RefuseWithDeviceReasonAndTheFormatsThatWork) {
  try {
    some_device().require_storable(WeightFormat::kNvfp4, "tensor mtp.fc.weight", "model.safetensors");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_STREQ(error.what(),
                 "model.safetensors: tensor mtp.fc.weight is in a format that Some Device 3000 cannot use: no FP4 unit (expected "
                 "bf16, fp8-block, got nvfp4)");
  }
}

TEST(Capabilities, ListNoActivationsAndTakeFloat32) {
  Capabilities device = some_device();
  device.activation_dtypes = {};
  EXPECT_EQ(device.activation_dtype(std::nullopt), DType::kF32);
  EXPECT_EQ(device.activation_dtype(DType::kF32), DType::kF32);
  EXPECT_THROW(static_cast<void>(device.activation_dtype(DType::kBF16)), Error);
}

TEST(Capabilities, TakeTheBestActivationsUnlessOthersAreAskedFor) {
  Capabilities device = some_device();
  device.activation_dtypes = {DType::kBF16, DType::kF32};
  EXPECT_EQ(device.activation_dtype(std::nullopt), DType::kBF16);
  EXPECT_EQ(device.activation_dtype(DType::kF32), DType::kF32);
  device.activation_dtypes = {DType::kF32};
  try {
    static_cast<void>(device.activation_dtype(DType::kBF16));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_STREQ(error.what(), "Some Device 3000 has no linear layers for such activations (expected F32, got BF16)");
  }
}

}  // namespace
}  // namespace foretoken
