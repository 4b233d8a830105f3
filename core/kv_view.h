// Views of what lives in the caches, for layers: who owns the memory is cache/.
#pragma once

#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace foretoken {

/// The K and V pools of one attention layer.
struct PagedKvView {
  Tensor k_cache;    // [num_blocks, block_size, num_key_value_heads, head_dim] F32, BF16 or E4M3
  Tensor v_cache;    // like k_cache
  Tensor k_scale{};  // [1] F32 where the cache is E4M3: key = code * k_scale; absent otherwise
  Tensor v_scale{};  // [1] F32, likewise
};

/// Throws InvalidArgument that begins with `op` unless both caches have one dtype and both scales are there exactly when it is
/// E4M3. What is stored then is E4M3(value / scale), saturating; what is read is code * scale in float32.
void check_kv_scales(std::string_view op, const PagedKvView& kv);

/// What one code of an E4M3 cache counts in one layer.
struct KvScales {
  float k = 1.0F;
  float v = 1.0F;
};

/// The recurrent state of one gated delta net layer, one slot per sequence, with the rows that a verify step recorded.
struct RecurrentStateView {
  Tensor conv_state;    // [S, C, 3] F32
  Tensor state;         // [S, nv, dk, dv] F32
  Tensor conv_record;   // [S, R, C] F32
  Tensor key_record;    // [S, R, nv, dk] F32
  Tensor delta_record;  // [S, R, nv, dv] F32
  Tensor decay_record;  // [S, R, nv] F32
};

/// What one step is about, in device memory: T rows of B sequences, those of sequence b at query_start_loc[b] ..
/// query_start_loc[b+1]. Rows past query_start_loc[B] are padding; their slot_mapping is -1.
struct StepView {
  Tensor positions;         // [T] I32, for the rotary embedding
  Tensor slot_mapping;      // [T] I64, slot in the paged cache or -1: do not write
  Tensor query_start_loc;   // [B+1] I32
  Tensor seq_lens;          // [B] I32, cache positions of each sequence with the rows of this step
  Tensor block_table;       // [B, max_blocks_per_seq] I32, physical block or -1
  Tensor state_slots;       // [B] I32, slot in the recurrent states (target only)
  Tensor num_commit;        // [B] I32, recorded rows that this step commits first (target only)
  int64_t max_seq_len = 0;  // bound of seq_lens in this shape bucket
};

}  // namespace foretoken
