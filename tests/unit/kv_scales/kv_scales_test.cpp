// Scales of FP8 KV caches: the checkpoint's, or bounds that hold and that some input reaches.
#include "models/kv_scales.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backends/ops.h"
#include "backends/registry.h"

namespace foretoken {
namespace {

constexpr int64_t kHeadDim = 24;
constexpr int64_t kHiddenSize = 80;
constexpr int64_t kValueRows = 48;

class KvScalesTest : public ::testing::Test {
 protected:
  Tensor device(const Shape& shape, const std::vector<float>& values) {
    buffers_.push_back(backend_->allocate(dtype_bytes(DType::kF32, values.size())));
    const Tensor tensor = buffers_.back().tensor(DType::kF32, shape);
    stream_->upload(std::as_bytes(std::span(values)), tensor.view());
    return tensor;
  }
  std::vector<float> random(int64_t count, float sigma) {
    std::normal_distribution<float> normal(0.0F, sigma);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(generator_);
    return values;
  }
  /// A layer with random weights; those that scales come from are kept on the host too.
  DecoderLayerWeights layer() {
    k_norm_ = random(kHeadDim, 0.4F);
    input_layernorm_ = random(kHiddenSize, 0.4F);
    v_proj_ = random(kValueRows * kHiddenSize, 0.1F);
    DecoderLayerWeights weights;
    weights.input_layernorm = device({kHiddenSize}, input_layernorm_);
    weights.self_attn.emplace();
    weights.self_attn->k_norm = device({kHeadDim}, k_norm_);
    weights.self_attn->v_proj = {
        .weight = device({kValueRows, kHiddenSize}, v_proj_), .scale = {}, .global_scale = {}, .format = WeightFormat::kF32};
    return weights;
  }
  /// The largest |k| of one head after norm and rotation, from the device's operators.
  double largest_key(const std::vector<float>& head, const std::vector<float>& cos_sin) {
    const Tensor x = device({1, kHeadDim}, head);
    stream_->run([&](CommandList& cmd) {
      ops::rms_norm(cmd, x, device({kHeadDim}, k_norm_), x, 1e-6F);
      ops::dispatch(cmd, Rope{.x = x.reshape({1, 1, kHeadDim}), .cos_sin = device({1, 16}, cos_sin)});
    });
    std::vector<float> out(head.size());
    stream_->download(x.view(), std::as_writable_bytes(std::span(out)));
    double largest = 0.0;
    for (const float value : out) largest = std::max(largest, std::fabs(double{value}));
    return largest;
  }
  /// The largest |v| of one row of hidden states.
  double largest_value(const std::vector<float>& hidden) {
    double squares = 0.0;
    for (const float x : hidden) squares += double{x} * x;
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(hidden.size()) + 1e-6);
    double largest = 0.0;
    for (size_t row = 0; row < kValueRows; ++row) {
      double sum = 0.0;
      for (size_t i = 0; i < hidden.size(); ++i) {
        sum += v_proj_[row * hidden.size() + i] * (1.0 + input_layernorm_[i]) * hidden[i] * scale;
      }
      largest = std::max(largest, std::fabs(sum));
    }
    return largest;
  }

  std::unique_ptr<GpuBackend> backend_ = BackendRegistry::instance().open("cpu", {.num_threads = 1});
  std::unique_ptr<Stream> stream_ = backend_->create_stream();
  std::vector<Buffer> buffers_;
  std::mt19937 generator_{5};
  std::vector<float> k_norm_;
  std::vector<float> input_layernorm_;
  std::vector<float> v_proj_;
};

TEST_F(KvScalesTest, NoInputSaturatesAndSomeInputComesClose) {
  const DecoderLayerWeights weights = layer();
  const KvScales scales = kv_scales(*backend_, *stream_, weights);
  const double key_bound = scales.k * 448.0, value_bound = scales.v * 448.0;
  for (int trial = 0; trial < 200; ++trial) {
    const float angle = std::uniform_real_distribution<float>(0.0F, 7.0F)(generator_);
    std::vector<float> cos_sin(16);
    for (size_t i = 0; i < 16; ++i) cos_sin[i] = i < 8 ? std::cos(angle) : std::sin(angle);
    std::vector<float> head = random(kHeadDim, trial % 2 == 0 ? 1.0F : 1e4F);
    if (trial % 4 == 0) std::fill(head.begin() + 1 + trial % 3, head.end(), 0.0F);  // few elements: large after the norm
    EXPECT_LE(largest_key(head, cos_sin), key_bound * (1.0 + 1e-6));
    EXPECT_LE(largest_value(random(kHiddenSize, 3.0F)), value_bound * (1.0 + 1e-6));
  }

  // One element alone takes the whole norm of a head; no rotation.
  size_t widest = 0;
  for (size_t i = 0; i < k_norm_.size(); ++i) {
    if (std::fabs(1.0F + k_norm_[i]) > std::fabs(1.0F + k_norm_[widest])) widest = i;
  }
  std::vector<float> head(kHeadDim, 0.0F);
  head[widest] = 100.0F;
  std::vector<float> no_rotation(16, 0.0F);
  std::fill_n(no_rotation.begin(), 8, 1.0F);
  EXPECT_NEAR(largest_key(head, no_rotation), key_bound, key_bound * 1e-5);

  // A hidden state along a row reaches that row's bound; the longest row has the bound of all.
  double reached = 0.0;
  for (size_t row = 0; row < kValueRows; ++row) {
    std::vector<float> hidden;
    for (size_t i = 0; i < kHiddenSize; ++i) {
      hidden.push_back(100.0F * v_proj_[row * kHiddenSize + i] * (1.0F + input_layernorm_[i]));
    }
    reached = std::max(reached, largest_value(hidden));
  }
  EXPECT_NEAR(reached, value_bound, value_bound * 1e-5);
}

TEST_F(KvScalesTest, TheCheckpointsScalesComeFirstSideBySide) {
  DecoderLayerWeights weights = layer();
  const KvScales bounds = kv_scales(*backend_, *stream_, weights);
  weights.self_attn->k_scale = device({1}, {0.25F});
  EXPECT_EQ(kv_scales(*backend_, *stream_, weights).k, 0.25F);
  EXPECT_EQ(kv_scales(*backend_, *stream_, weights).v, bounds.v);
  weights.self_attn->v_scale = device({1}, {0.5F});
  EXPECT_EQ(kv_scales(*backend_, *stream_, weights).v, 0.5F);
}

TEST_F(KvScalesTest, QuantisedWeightsCountAsWhatTheyDecodeTo) {
  DecoderLayerWeights weights = layer();
  const Buffer memory = backend_->allocate(kValueRows * kHiddenSize + kValueRows * sizeof(float));
  const LinearWeight codes{.weight = memory.tensor(DType::kE4M3, {kValueRows, kHiddenSize}),
                           .scale = memory.tensor(DType::kF32, {kValueRows}, kValueRows * kHiddenSize),
                           .global_scale = {},
                           .format = WeightFormat::kFp8Row};
  const LinearWeight decoded{
      .weight = device({kValueRows, kHiddenSize}, v_proj_), .scale = {}, .global_scale = {}, .format = WeightFormat::kF32};
  stream_->run([&](CommandList& cmd) {
    ops::dispatch(cmd, QuantizeFp8Row{.x = weights.self_attn->v_proj.weight, .codes = codes.weight, .scale = codes.scale});
    ops::dispatch(cmd, Dequantize{.w = codes, .out = decoded.weight});
  });
  const float exact = kv_scales(*backend_, *stream_, weights).v;
  weights.self_attn->v_proj = codes;
  const float coded = kv_scales(*backend_, *stream_, weights).v;
  weights.self_attn->v_proj = decoded;
  EXPECT_EQ(coded, kv_scales(*backend_, *stream_, weights).v);
  EXPECT_NE(coded, exact);
  EXPECT_NEAR(coded, exact, exact * 0.05);
}

TEST_F(KvScalesTest, WeightsOfZerosHaveAScaleThatDivides) {
  DecoderLayerWeights weights = layer();
  weights.self_attn->v_proj.weight = device({kValueRows, kHiddenSize}, std::vector<float>(kValueRows * kHiddenSize, 0.0F));
  EXPECT_EQ(kv_scales(*backend_, *stream_, weights).v, 1.0F);
}

TEST_F(KvScalesTest, LayersWithoutAttentionHaveNone) {
  const std::vector<DecoderLayerWeights> layers{DecoderLayerWeights{}, layer(), DecoderLayerWeights{}, layer()};
  const std::vector<KvScales> scales = kv_scales(*backend_, *stream_, layers);
  ASSERT_EQ(scales.size(), 2U);
  EXPECT_EQ(scales[1].v, kv_scales(*backend_, *stream_, layers[3]).v);
  EXPECT_NE(scales[0].v, scales[1].v);
}

}  // namespace
}  // namespace foretoken
