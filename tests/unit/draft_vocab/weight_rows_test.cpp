#include "models/weight_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "backends/ops.h"
#include "backends/registry.h"
#include "core/error.h"

namespace foretoken {
namespace {

constexpr int64_t kRows = 300;
constexpr int64_t kColumns = 64;
const std::vector<int32_t> kChosen{0, 1, 2, 5, 127, 128, 200, 298, 299};

class WeightRows : public testing::TestWithParam<WeightFormat> {
 protected:
  /// Random values in the format under test.
  ConvertedWeight source() {
    std::mt19937_64 generator(3);
    std::vector<float> values(static_cast<size_t>(kRows * kColumns));
    for (float& value : values) value = static_cast<float>(generator() % 2001) / 1000.0F - 1.0F;
    plain_ = backend_->allocate(values.size() * sizeof(float));
    stream_->upload(std::as_bytes(std::span(values)), plain_.view());
    const LinearWeight weight{
        .weight = plain_.tensor(DType::kF32, {kRows, kColumns}), .scale = {}, .global_scale = {}, .format = WeightFormat::kF32};
    return convert_weight(*backend_, *stream_, weight, GetParam());
  }

  std::vector<float> values(const LinearWeight& weight) {
    const ConvertedWeight decoded = convert_weight(*backend_, *stream_, weight, WeightFormat::kF32);
    std::vector<float> result(static_cast<size_t>(weight.out_features() * kColumns));
    stream_->download(decoded.weight.weight.view(), std::as_writable_bytes(std::span(result)));
    return result;
  }

  std::unique_ptr<GpuBackend> backend_ = BackendRegistry::instance().open("cpu", {.num_threads = 2});
  std::unique_ptr<Stream> stream_ = backend_->create_stream();
  Buffer plain_;
};

TEST_P(WeightRows, AreThoseOfTheSource) {
  if (!backend_->capabilities().weight_format(GetParam()).storable) GTEST_SKIP() << "not on this device";
  const ConvertedWeight all = source();
  const ConvertedWeight some = copy_rows(*backend_, *stream_, all.weight, kChosen);
  EXPECT_EQ(some.weight.format, GetParam() == WeightFormat::kFp8Block ? WeightFormat::kBF16 : GetParam());
  ASSERT_EQ(some.weight.out_features(), std::ssize(kChosen));
  const std::vector<float> expected = values(all.weight);
  const std::vector<float> got = values(some.weight);
  const double bound = GetParam() == WeightFormat::kFp8Block ? 1.0 / 256.0 : 0.0;  // of a BF16 number
  for (size_t i = 0; i < kChosen.size(); ++i) {
    for (size_t k = 0; k < kColumns; ++k) {
      const float right = expected[static_cast<size_t>(kChosen[i]) * kColumns + k];
      ASSERT_NEAR(got[i * kColumns + k], right, std::fabs(right) * bound) << "row " << kChosen[i] << ", column " << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, WeightRows,
                         testing::Values(WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kFp8Row, WeightFormat::kFp8Block,
                                         WeightFormat::kNvfp4),
                         [](const auto& instance) {
                           std::string name(to_string(instance.param));
                           std::erase(name, '-');
                           return name;
                         });

TEST(WeightRowsErrors, RowsMustRiseAndBeThere) {
  const auto backend = BackendRegistry::instance().open("cpu", {.num_threads = 1});
  const auto stream = backend->create_stream();
  const Buffer memory = backend->allocate(4 * 16 * sizeof(float));
  const LinearWeight weight{
      .weight = memory.tensor(DType::kF32, {4, 16}), .scale = {}, .global_scale = {}, .format = WeightFormat::kF32};
  for (const std::vector<int32_t>& rows : {std::vector{4}, std::vector{-1}, std::vector{2, 2}, std::vector{3, 1}}) {
    EXPECT_THROW((void)copy_rows(*backend, *stream, weight, rows), Error);
  }
}

}  // namespace
}  // namespace foretoken
