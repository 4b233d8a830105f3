// What one code of an FP8 KV cache counts, from the weights alone: no calibration, the same on every device.
#pragma once

#include <span>
#include <vector>

#include "backends/backend.h"
#include "core/kv_view.h"
#include "layers/weights.h"

namespace foretoken {

/// The scales of one full-attention layer: the checkpoint's where it has them, otherwise the smallest with which no input
/// whatever can saturate a code (448 at most), D = head_dim, H = hidden_size:
///
///   K   rms_norm makes a head of norm sqrt(D) at most, and k_norm multiplies its elements by 1 + k_norm. Rotation keeps the norm
///       of a pair of elements, and no element is larger than the norm of its pair:
///       |k_i| <= sqrt(D) * max |1 + k_norm|.
///   V   the layer's input is x o (1 + input_layernorm) with a norm of x of sqrt(H) at most, so by Cauchy and Schwarz
///       |v_n| <= || row n of v_proj o (1 + input_layernorm) || * sqrt(H).
///
/// Scale = bound / 448, 1 where the bound is 0. Typical values lie below the bounds by a factor of sqrt(D) and sqrt(H), which a
/// code with four exponent bits has room for. Rounding of the arithmetic before may pass a bound by far less than the 3.5 % from
/// which a code would saturate.
///
/// Reads weights back on `stream`. Throws OutOfMemory; Unsupported when the device cannot read the format of v_proj back.
[[nodiscard]] KvScales kv_scales(GpuBackend& backend, Stream& stream, const DecoderLayerWeights& layer);

/// Those of all full-attention layers of a stack, in order.
[[nodiscard]] std::vector<KvScales> kv_scales(GpuBackend& backend, Stream& stream, std::span<const DecoderLayerWeights> layers);

}  // namespace foretoken
