// out = softmax(q k^T * scale) v * sigmoid(gate), causal, grouped heads (kv head = q head / (Hq/Hkv)), over a paged cache.
#pragma once

#include <array>
#include <vector>

#include "core/ops/linear.h"

namespace foretoken {

template <class Op>
struct OpCase;

/// Row i of sequence b (rows query_start_loc[b] .. query_start_loc[b+1]) attends to the first
/// seq_lens[b] - (rows of b) + i + 1 positions of its sequence. Rows past query_start_loc[B] are not computed and not written.
/// Row-invariant at kExact: a row's bits depend on its own query and keys only. A split over the context depends on the row's own
/// length only.
struct GatedAttention {
  Tensor q;                // [T, Hq, D], normed and rotated
  Tensor q_gate;           // [T, Hq, 2*D]: the gate is the second half of each head
  Tensor k_cache;          // [num_blocks, block_size, Hkv, D] F32, BF16 or E4M3
  Tensor v_cache;          // like k_cache
  Tensor k_scale{};        // [1] F32 where the cache is E4M3, see check_kv_scales; absent otherwise
  Tensor v_scale{};        // like k_scale
  Tensor block_table;      // [B, max_blocks] I32
  Tensor seq_lens;         // [B] I32: positions in the cache, these rows included
  Tensor query_start_loc;  // [B+1] I32
  Tensor out;              // [T, Hq, D]
  Tensor workspace;
  float scale = 1.0F;
  int64_t max_seq_len = 0;                              // bound of seq_lens in this shape bucket; sizes the launch
  LinearPrecision precision = LinearPrecision::kExact;  // kBF16: queries, keys, values and shares may be rounded

  [[nodiscard]] std::array<const Tensor*, 11> operands() const {
    return {&q, &q_gate, &k_cache, &v_cache, &k_scale, &v_scale, &block_table, &seq_lens, &query_start_loc, &out, &workspace};
  }
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<GatedAttention>> cases();
};

}  // namespace foretoken
