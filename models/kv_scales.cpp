#include "models/kv_scales.h"

#include <algorithm>
#include <cmath>

#include "backends/ops.h"

namespace foretoken {
namespace {

constexpr double kLargestCode = 448.0;

std::vector<float> read_f32(Stream& stream, const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.shape().num_elements()));
  stream.download(tensor.view(), std::as_writable_bytes(std::span(values)));
  return values;
}

/// The weight in float32, row by row.
std::vector<float> read_weight(GpuBackend& backend, Stream& stream, const LinearWeight& w) {
  const Shape& shape = w.weight.shape();
  const Buffer memory = backend.allocate(dtype_bytes(DType::kF32, static_cast<size_t>(shape.num_elements())));
  const Tensor values = memory.tensor(DType::kF32, shape);
  stream.run([&](CommandList& cmd) { ops::dispatch(cmd, Dequantize{.w = w, .out = values}); });
  return read_f32(stream, values);
}

float scale_for(double bound) { return bound > 0.0 ? static_cast<float>(bound / kLargestCode) : 1.0F; }

float key_scale(const std::vector<float>& k_norm) {
  double largest = 0.0;
  for (const float weight : k_norm) largest = std::max(largest, std::fabs(1.0 + weight));
  return scale_for(std::sqrt(static_cast<double>(k_norm.size())) * largest);
}

float value_scale(const std::vector<float>& v_proj, const std::vector<float>& input_layernorm) {
  double largest = 0.0;
  for (size_t row = 0; row < v_proj.size(); row += input_layernorm.size()) {
    double squares = 0.0;
    for (size_t i = 0; i < input_layernorm.size(); ++i) squares += std::pow(v_proj[row + i] * (1.0 + input_layernorm[i]), 2.0);
    largest = std::max(largest, squares);
  }
  return scale_for(std::sqrt(largest * static_cast<double>(input_layernorm.size())));
}

}  // namespace

KvScales kv_scales(GpuBackend& backend, Stream& stream, const DecoderLayerWeights& layer) {
  const GatedAttentionWeights& attention = *layer.self_attn;
  const float k = attention.k_scale ? read_f32(stream, attention.k_scale)[0] : key_scale(read_f32(stream, attention.k_norm));
  const float v = attention.v_scale
                      ? read_f32(stream, attention.v_scale)[0]
                      : value_scale(read_weight(backend, stream, attention.v_proj), read_f32(stream, layer.input_layernorm));
  return {.k = k, .v = v};
}

std::vector<KvScales> kv_scales(GpuBackend& backend, Stream& stream, std::span<const DecoderLayerWeights> layers) {
  std::vector<KvScales> scales;
  for (const DecoderLayerWeights& layer : layers) {
    if (layer.self_attn) scales.push_back(kv_scales(backend, stream, layer));
  }
  return scales;
}

}  // namespace foretoken
