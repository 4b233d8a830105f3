// Partial rotary embedding with half-split pairs (i, i + R/2), inv_freq_i = theta^(-2i/R), angle = position * inv_freq.
#pragma once

#include <array>
#include <vector>

#include "core/op_schema.h"

namespace foretoken {

template <class Op>
struct OpCase;

/// cos_sin[t] = [cos(angle_0) .. cos(angle_{R/2-1}), sin(angle_0) ..]: computed once a step, shared by all layers. Angles in
/// float64.
struct RopeTable {
  Tensor positions;  // [T] I32
  Tensor cos_sin;    // [T, R] F32, R = rotary_dim
  double theta = 1e7;

  [[nodiscard]] std::array<const Tensor*, 2> operands() const { return {&positions, &cos_sin}; }
  static const OpSchema& schema();
  static std::vector<OpCase<RopeTable>> cases();
};

/// Rotates the first R dimensions of every head in place.
struct Rope {
  Tensor x;        // [T, Hn, D], updated
  Tensor cos_sin;  // [T, R] F32

  [[nodiscard]] std::array<const Tensor*, 2> operands() const { return {&x, &cos_sin}; }
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<Rope>> cases();
};

/// What stands between the projections and the attention of a gated attention layer, in one pass:
/// q = rope(rms_norm(query; q_norm)), k = rope(rms_norm(k; k_norm)) per head; k and v go to their slots of the paged cache.
/// A row with slot -1 writes nothing to the cache. Without q_gate only the cache is written (rows that are not attended from).
struct QkNormRopeCache {
  Tensor q_gate;        // [T, Hq, 2*D]: per head [query | gate]; may be absent, together with q_norm and q
  Tensor k;             // [T, Hkv, D]
  Tensor v;             // [T, Hkv, D]
  Tensor q_norm;        // [D] F32, zero-centred
  Tensor k_norm;        // [D] F32, zero-centred
  Tensor cos_sin;       // [T, R] F32
  Tensor slot_mapping;  // [T] I64: block * block_size + offset, or -1
  Tensor q;             // [T, Hq, D] out
  Tensor k_cache;       // [num_blocks, block_size, Hkv, D] F32, BF16 or E4M3, updated
  Tensor v_cache;       // like k_cache
  Tensor k_scale{};     // [1] F32 where the cache is E4M3, see check_kv_scales; absent otherwise
  Tensor v_scale{};     // like k_scale
  float eps = 1e-6F;

  [[nodiscard]] std::array<const Tensor*, 12> operands() const {
    return {&q_gate, &k, &v, &q_norm, &k_norm, &cos_sin, &slot_mapping, &q, &k_cache, &v_cache, &k_scale, &v_scale};
  }
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<QkNormRopeCache>> cases();
};

}  // namespace foretoken
