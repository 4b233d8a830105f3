// LinearArgmax finds the first largest of the logits that Linear gives, to the bit: the rows of the weight are permutations of
// one row, so that all logits are equal but for the rounding of their sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/ops.h"
#include "core/ops/case_parts.h"
#include "tests/conformance/operators/device_operands.h"

namespace foretoken {
namespace {

constexpr int64_t kInFeatures = 1024;
constexpr int64_t kRows = 9;
constexpr uint64_t kSeed = 11;
/// Columns among which a row's elements change places, and over which activations are constant.
constexpr size_t kBlock = 64;

/// Blocks of a constant each, of very different sizes, so that sums are rounded.
void fill_blocks(std::mt19937_64& generator, std::span<double> values) {
  for (size_t block = 0; block < values.size() / kBlock; ++block) {
    double value = 0.0;
    fill::normal(std::ldexp(1.0, -4 * static_cast<int>(block % 8)))(generator, std::span(&value, 1));
    std::ranges::fill(values.subspan(block * kBlock, kBlock), value);
  }
}

void fill_permutations(std::mt19937_64& generator, std::span<double> values) {
  const std::span<double> first = values.first(kInFeatures);
  fill::normal(2.0)(generator, first);
  for (size_t begin = kInFeatures; begin < values.size(); begin += kBlock) {
    const std::span<double> block = values.subspan(begin, kBlock);
    std::ranges::copy(first.subspan(begin % kInFeatures, kBlock), block.begin());
    std::ranges::shuffle(block, generator);
  }
}

LinearWeight permuted_weight(OperandMaker& maker, WeightFormat format, int64_t out_features) {
  const Shape shape{out_features, kInFeatures};
  LinearWeight weight{
      .weight = maker.input(code_dtype(format), shape, fill_permutations), .scale = {}, .global_scale = {}, .format = format};
  const bool nvfp4 = format == WeightFormat::kNvfp4;
  if (format != WeightFormat::kBF16) {
    weight.scale = maker.input(nvfp4 ? DType::kE4M3 : DType::kF32, scale_shape(format, shape), fill::constant(0.6875));
  }
  if (nvfp4) weight.global_scale = maker.input(DType::kF32, {1}, fill::constant(0.37));
  return weight;
}

/// Both operators over the same operands.
struct Head {
  Linear logits;
  LinearArgmax best;
};

Head make_head(OperandMaker& maker, DType activations, WeightFormat format, int64_t out_features) {
  Head head;
  head.logits.x = maker.input(activations, {kRows, kInFeatures}, fill_blocks);
  head.logits.w = permuted_weight(maker, format, out_features);
  head.logits.out = maker.output(DType::kF32, {kRows, out_features});
  head.best = {.x = head.logits.x,
               .w = head.logits.w,
               .token_ids = maker.output(DType::kI32, {kRows}),
               .logprobs = maker.output(DType::kF32, {kRows}),
               .workspace = {}};
  return head;
}

struct Best {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
};

class HeadOnDevice {
 public:
  HeadOnDevice(GpuBackend& backend, DType activations, WeightFormat format, int64_t out_features)
      : backend_(backend), stream_(backend.create_stream()), memory_(backend) {
    head_ = make_on_device(*stream_, memory_, kSeed,
                           [&](OperandMaker& maker) { return make_head(maker, activations, format, out_features); });
  }

  std::vector<float> logits() {
    Linear op = head_.logits;
    const Buffer scratch = allocate_workspace(backend_, ops::workspace_bytes(backend_.ops(), op), op.workspace);
    stream_->run([&](CommandList& cmd) { ops::dispatch(cmd, op); });
    return read<float>(op.out);
  }

  /// Of rows [first, first + count).
  Best best(int64_t first, int64_t count) {
    LinearArgmax op = head_.best;
    op.x = op.x.rows(first, count);
    op.token_ids = op.token_ids.rows(first, count);
    op.logprobs = op.logprobs.rows(first, count);
    const Buffer scratch = allocate_workspace(backend_, ops::workspace_bytes(backend_.ops(), op), op.workspace);
    stream_->run([&](CommandList& cmd) { ops::dispatch(cmd, op); });
    return {.ids = read<int32_t>(op.token_ids), .logprobs = read<float>(op.logprobs)};
  }

 private:
  template <class T>
  std::vector<T> read(const Tensor& tensor) {
    std::vector<T> values(static_cast<size_t>(tensor.shape().num_elements()));
    ByteImage image(values.size() * sizeof(T));
    stream_->download(tensor.view(), image);
    std::memcpy(values.data(), image.data(), image.size());
    return values;
  }

  GpuBackend& backend_;
  std::unique_ptr<Stream> stream_;
  OperandSet memory_;
  Head head_;
};

/// Returns whether the logits of a row differ: sums of the same products in another order were rounded differently. Where a
/// device adds these products without rounding, the case shows nothing about bits.
bool expect_first_largest(GpuBackend& backend, DType activations, WeightFormat format, int64_t out_features) {
  SCOPED_TRACE(std::string(to_string(format)) + ", " + std::to_string(out_features) + " rows of weights");
  HeadOnDevice device(backend, activations, format, out_features);
  const std::vector<float> logits = device.logits();
  bool rounded = false;
  std::vector<int32_t> expected_ids;
  std::vector<float> expected_logprobs;
  for (int64_t row = 0; row < kRows; ++row) {
    const std::span<const float> of_row =
        std::span(logits).subspan(static_cast<size_t>(row * out_features), static_cast<size_t>(out_features));
    const auto best = std::ranges::max_element(of_row);
    rounded = rounded || *best > *std::ranges::min_element(of_row);
    double sum = 0.0;
    for (const float logit : of_row) sum += std::exp(double{logit} - double{*best});
    expected_ids.push_back(static_cast<int32_t>(best - of_row.begin()));
    expected_logprobs.push_back(static_cast<float>(-std::log(sum)));
  }
  const Best found = device.best(0, kRows);
  EXPECT_EQ(found.ids, expected_ids);
  for (size_t row = 0; row < expected_logprobs.size(); ++row) EXPECT_NEAR(found.logprobs[row], expected_logprobs[row], 1e-4);
  for (int64_t row = 0; row < kRows; row += 4) {
    const Best alone = device.best(row, 1);
    EXPECT_EQ(alone.ids.front(), found.ids[static_cast<size_t>(row)]) << "row " << row << " alone";
    EXPECT_EQ(alone.logprobs.front(), found.logprobs[static_cast<size_t>(row)]) << "row " << row << " alone";
  }
  return rounded;
}

constexpr WeightFormat kFormats[] = {WeightFormat::kBF16, WeightFormat::kFp8Row, WeightFormat::kFp8Block, WeightFormat::kNvfp4};

TEST(LinearArgmaxBits, AreThoseOfLinearOnTheCpu) {
  const auto backend = BackendRegistry::instance().open("cpu", {.num_threads = 3});
  for (const WeightFormat format : kFormats) {
    EXPECT_TRUE(expect_first_largest(*backend, DType::kF32, format, 1000)) << "the case shows nothing";
  }
}

TEST(LinearArgmaxBits, AreThoseOfLinearOnTheSelectedDevice) {
  const auto backend = selected_device();
  if (backend == nullptr) GTEST_SKIP() << "FORETOKEN_TEST_BACKEND selects no device";
  for (const DType activations : backend->capabilities().activation_dtypes) {
    // A small weight, and one that kernels for large ones take.
    for (const int64_t out_features : {1000, 16001}) {
      bool rounded = false;
      for (const WeightFormat format : kFormats) {
        rounded = expect_first_largest(*backend, activations, format, out_features) || rounded;
      }
      EXPECT_TRUE(rounded) << "the cases show nothing";
    }
  }
}

}  // namespace
}  // namespace foretoken
