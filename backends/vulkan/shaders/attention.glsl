// gated_attention (core/ops/gated_attention.h): the rows that a work group takes, and one split of their context. A query is one
// head of one row. Each split of a row's context is computed from nothing, and the splits are merged in order, so the bits of a
// row depend neither on the rows beside it nor on who merges. Eight invocations share a key, and give its products with eight
// queries; invocation d then mixes element d of the values.
#ifndef FORETOKEN_ATTENTION_GLSL
#define FORETOKEN_ATTENTION_GLSL

struct GatedAttentionParams {
  uint64_t q;
  uint64_t q_gate;
  uint64_t k_cache;
  uint64_t v_cache;
  uint64_t k_scale;
  uint64_t v_scale;
  uint64_t block_table;
  uint64_t seq_lens;
  uint64_t query_start_loc;
  uint64_t out_;
  uint64_t partial;
  uint64_t partial_max;
  uint64_t q_stride;
  uint64_t q_gate_stride;
  uint64_t out_stride;
  uint64_t block_table_stride;
  uint num_sequences;
  uint num_query_heads;
  uint num_key_heads;
  uint head_dim;
  uint num_blocks;
  uint block_size;
  uint num_splits;
  uint first_row;
  uint max_seq_len;
  float scale;
  uint cache_format;
  uint q_is_bf16;
  uint q_gate_is_bf16;
  uint out_is_bf16;
};
PARAMS(GatedAttentionParams);

const uint kAttentionThreads = 256;
const uint kMaxHeadDim = 256;
const uint kAttentionRows = 16;
const uint kMinSplit = 64;
const uint kMaxSplits = 64;
// CacheFormat.
const uint kF32Cache = 0;
const uint kBf16Cache = 1;
const uint kE4m3Cache = 2;

// What is below every score.
const float kLowest = -3.402823466e38;

// Positions of one split of a row that is `length` positions long.
uint split_size(uint length) {
  uint size = kMinSplit;
  while (uint64_t(size) * kMaxSplits < length) size *= 2;
  return size;
}

// The factor of what belongs to `maximum` when a sum goes on with `larger`.
float rescale_factor(float maximum, float larger) { return maximum == larger ? 1.0 : exponential(maximum - larger); }

// What the splits of a query have given so far: one element of the mixed values, the maximum and the sum.
struct Merged {
  float mixed;
  float maximum;
  float sum;
};

void add_split(inout Merged merged, Merged split) {
  const float larger = max(merged.maximum, split.maximum);
  const float mine = rescale_factor(merged.maximum, larger);
  const float theirs = rescale_factor(split.maximum, larger);
  precise const float mixed = split.mixed * theirs;
  precise const float sum = split.sum * theirs;
  merged.mixed = fma(merged.mixed, mine, mixed);
  merged.sum = fma(merged.sum, mine, sum);
  merged.maximum = larger;
}

// Element d of a query's output.
void store_gated(uint row, uint head, uint d, Merged merged) {
  const uint64_t gate = row * params.q_gate_stride + uint64_t(head) * 2 * params.head_dim + params.head_dim + d;
  precise float value = merged.mixed / merged.sum;
  if (params.cache_format == kE4m3Cache) value = value * load_f32(params.v_scale, 0);
  value = value * sigmoid(load_float(params.q_gate, gate, params.q_gate_is_bf16));
  store_float(params.out_, row * params.out_stride + uint64_t(head) * params.head_dim + d, value, params.out_is_bf16);
}

#endif
