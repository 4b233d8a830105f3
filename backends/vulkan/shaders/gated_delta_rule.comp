// gated_delta_rule (core/ops/gated_delta_rule.h) for rows one after another: grid (1, value head, sequence). A work group holds
// the state of a head. A state element sees the same operations in the same order whether its rows come one by one, in one call,
// or recorded and committed: s = fma(k, delta, decay * s). Sums over keys and columns form the same tree for every row.
#version 460
#include "backends/vulkan/shaders/device.glsl"

struct GatedDeltaRuleParams {
  uint64_t qkv;
  uint64_t b;
  uint64_t a;
  uint64_t A_log;
  uint64_t dt_bias;
  uint64_t query_start_loc;
  uint64_t state_slots;
  uint64_t num_commit;
  uint64_t state;
  uint64_t key_record;
  uint64_t delta_record;
  uint64_t decay_record;
  uint64_t z;
  uint64_t norm;
  uint64_t out_;
  uint64_t qkv_stride;
  uint64_t b_stride;
  uint64_t a_stride;
  uint64_t z_stride;
  uint64_t out_stride;
  uint num_key_heads;
  uint num_value_heads;
  uint key_dim;
  uint value_dim;
  uint num_slots;
  uint record_rows;
  uint records;
  float eps;
  uint qkv_is_bf16;
  uint b_is_bf16;
  uint a_is_bf16;
  uint z_is_bf16;
  uint out_is_bf16;
  uint reserved;
};
PARAMS(GatedDeltaRuleParams);

#include "backends/vulkan/shaders/delta_net.glsl"

const uint kMaxStateDim = 128;
// Elements of a vector that an invocation reads at a time, and how many times those of the largest.
const uint kQuad = 4;
const uint kQuads = kMaxStateDim / kQuad;
// Rows that a group prepares together.
const uint kRowBlock = 4;
const uint kBlockQuads = kRowBlock * kQuads;
// An invocation holds four columns of the state, and kThreadKeys keys of them: kKeyLanes neighbours and kKeyParts parts of the
// group share the columns.
const uint kThreadKeys = 8;
const uint kKeyLanes = 8;
const uint kKeyParts = 2;
// Neighbours whose squares are added in registers, and sums of a vector that are left.
const uint kSquareLanes = 8;
const uint kSquares = kQuads / kSquareLanes;

// What does not exist of a query, key or value is 0. While records are committed these are recorded keys and deltas.
shared vec4 query_rows[kRowBlock][kQuads];
shared vec4 key_rows[kRowBlock][kQuads];
shared vec4 value_rows[kRowBlock][kQuads];
shared float seen[2][kKeyParts][kMaxStateDim];  // rows take turns, so one barrier is enough
shared float answers[kRowBlock][kKeyParts][kMaxStateDim];
shared float vector_squares[2][kRowBlock][kSquares];  // of queries, of keys
shared float output_squares[kRowBlock][kSquares];
shared float decays[kRowBlock];
shared float betas[kRowBlock];

// Where the group works, and the invocation.
SequenceRows rows;
uint head;
uint own;
uint key_lane;
uint quad;
uint key_part;
vec4 state[kThreadKeys];

// Where an invocation works on a block of rows: vector `kind`, of row `row` of the block, elements `begin` .. `begin` + kQuad.
struct BlockPlace {
  uint kind;
  uint row;
  uint begin;
};

BlockPlace block_place() { return BlockPlace(own / kBlockQuads, own % kBlockQuads / kQuads, own % kQuads * kQuad); }

// Elements base[index] .. base[index + kQuad], of which those below `end` exist; the rest is 0.
vec4 load_quad(uint64_t base, uint64_t index, uint begin, uint end, uint is_bf16) {
  vec4 result = vec4(0.0);
  [[unroll]] for (uint i = 0; i < kQuad; ++i) {
    if (begin + i < end) result[i] = load_float(base, index + i, is_bf16);
  }
  return result;
}

void store_quad(uint64_t base, uint64_t index, vec4 values, uint begin, uint end) {
  [[unroll]] for (uint i = 0; i < kQuad; ++i) {
    if (begin + i < end) store_f32(base, index + i, values[i]);
  }
}

uint first_key() { return (key_part * kKeyLanes + key_lane) * kThreadKeys; }
uint64_t record_of(uint row) { return (uint64_t(rows.slot) * params.record_rows + row) * params.num_value_heads + head; }
uint64_t state_index(uint key) {
  return ((uint64_t(rows.slot) * params.num_value_heads + head) * params.key_dim + key) * params.value_dim + quad * kQuad;
}
// Columns of a key that exist.
uint columns_of(uint key) { return key < params.key_dim ? params.value_dim : 0; }
bool has_whole_quads() { return params.value_dim % kQuad == 0 && params.state % 16 == 0; }

void load_state() {
  const bool whole = has_whole_quads();
  [[unroll]] for (uint i = 0; i < kThreadKeys; ++i) {
    const uint key = first_key() + i;
    state[i] = vec4(0.0);
    if (quad * kQuad >= columns_of(key)) continue;
    if (whole) {
      state[i] = F32x4Ref(params.state + state_index(key) * 4).value;
    } else {
      state[i] = load_quad(params.state, state_index(key), quad * kQuad, params.value_dim, 0);
    }
  }
}

void store_state() {
  const bool whole = has_whole_quads();
  [[unroll]] for (uint i = 0; i < kThreadKeys; ++i) {
    const uint key = first_key() + i;
    if (quad * kQuad >= columns_of(key)) continue;
    if (whole) {
      F32x4Ref(params.state + state_index(key) * 4).value = state[i];
    } else {
      store_quad(params.state, state_index(key), state[i], quad * kQuad, params.value_dim);
    }
  }
}

// s = decay * s + key delta^T
void update_state(vec4 low_keys, vec4 high_keys, vec4 delta, float decay) {
  [[unroll]] for (uint i = 0; i < kThreadKeys; ++i) {
    precise const vec4 decayed = decay * state[i];
    state[i] = fma(vec4(i < 4 ? low_keys[i % 4] : high_keys[i % 4]), delta, decayed);
  }
}

// The invocation's share of s^T x in its part of the keys: the sum over its neighbours of one of its columns.
float transposed_times(vec4 low, vec4 high) {
  vec4 sum = vec4(0.0);
  [[unroll]] for (uint i = 0; i < kThreadKeys; ++i) sum = fma(state[i], vec4(i < 4 ? low[i % 4] : high[i % 4]), sum);
  const bool upper = (key_lane & 4) != 0;
  const bool last = (key_lane & 2) != 0;
  precise const float first_sum = (upper ? sum.z : sum.x) + subgroupShuffleXor(upper ? sum.x : sum.z, 4);
  precise const float second_sum = (upper ? sum.w : sum.y) + subgroupShuffleXor(upper ? sum.y : sum.w, 4);
  precise const float column_sum = (last ? second_sum : first_sum) + subgroupShuffleXor(last ? first_sum : second_sum, 2);
  precise const float whole_sum = column_sum + subgroupShuffleXor(column_sum, 1);
  return whole_sum;
}

// The column whose sum transposed_times gives.
uint column_of_sum() { return quad * kQuad + ((key_lane & 4) != 0 ? 2 : 0) + ((key_lane & 2) != 0 ? 1 : 0); }

// Sum over the kSquareLanes neighbours.
float neighbour_sum(float value) {
  precise float sum = value;
  [[unroll]] for (uint mask = kSquareLanes / 2; mask > 0; mask /= 2) sum = sum + subgroupShuffleXor(sum, mask);
  return sum;
}

float squares_of(vec4 v) {
  precise const vec2 products = v.yw * v.yw;
  precise const float sum = fma(v.x, v.x, products.x) + fma(v.z, v.z, products.y);
  return sum;
}

// Adds the recorded rows that the sequence commits to the state.
void commit_rows() {
  const BlockPlace place = block_place();
  for (uint first = 0; first < rows.committed; first += kRowBlock) {
    const uint count = min(kRowBlock, rows.committed - first);
    barrier();  // the block before has been used
    if (place.row < count) {
      const uint64_t record = record_of(first + place.row);
      if (place.kind == 0) {
        key_rows[place.row][own % kQuads] =
            load_quad(params.key_record, record * params.key_dim + place.begin, place.begin, params.key_dim, 0);
      } else if (place.kind == 1) {
        value_rows[place.row][own % kQuads] =
            load_quad(params.delta_record, record * params.value_dim + place.begin, place.begin, params.value_dim, 0);
      } else if (place.kind == 2 && place.begin == 0) {
        decays[place.row] = load_f32(params.decay_record, record);
      }
    }
    barrier();
    for (uint w = 0; w < count; ++w) {
      const uint key = first_key() / kQuad;
      update_state(key_rows[w][key], key_rows[w][key + 1], value_rows[w][quad], decays[w]);
    }
  }
}

// The quad of a query, key or value of the block from row `first` of the call on that the invocation brings.
vec4 load_vectors(uint first, uint count) {
  const BlockPlace place = block_place();
  if (place.kind > 2 || place.row >= count) return vec4(0.0);
  const uint64_t keys = uint64_t(params.num_key_heads) * params.key_dim;
  uint64_t index = (first + place.row) * params.qkv_stride + place.begin;
  if (place.kind == 2) {
    index += 2 * keys + uint64_t(head) * params.value_dim;
  } else {
    index += place.kind * keys + uint64_t(head / (params.num_value_heads / params.num_key_heads)) * params.key_dim;
  }
  return load_quad(params.qkv, index, place.begin, place.kind == 2 ? params.value_dim : params.key_dim, params.qkv_is_bf16);
}

void load_gates(uint first, uint count) {
  const BlockPlace place = block_place();
  if (place.kind != 3 || place.begin != 0 || place.row >= count) return;
  const float a = load_float(params.a, (first + place.row) * params.a_stride + head, params.a_is_bf16);
  const float b = load_float(params.b, (first + place.row) * params.b_stride + head, params.b_is_bf16);
  const float rate = exponential(load_f32(params.A_log, head));
  precise const float step_size = a + load_f32(params.dt_bias, head);
  decays[place.row] = exponential(-rate * softplus(step_size));
  betas[place.row] = sigmoid(b);
}

// Puts a block into the memory of the group, queries and keys brought to length.
void store_vectors(vec4 vector, uint first, uint count) {
  const BlockPlace place = block_place();
  const float squares = neighbour_sum(squares_of(vector));
  barrier();  // the block before has been used
  if (place.kind < 2 && own % kSquareLanes == 0) vector_squares[place.kind][place.row][own % kQuads / kSquareLanes] = squares;
  load_gates(first, count);
  barrier();
  if (place.kind < 2) {
    precise float sum = 0.0;
    [[unroll]] for (uint i = 0; i < kSquares; ++i) sum = sum + vector_squares[place.kind][place.row][i];
    const float scale = place.kind == 0 ? 1.0 / sqrt(float(params.key_dim)) : 1.0;
    const float factor = scale / sqrt(sum + 1e-6);
    precise const vec4 scaled = vector * factor;
    if (place.kind == 0) {
      query_rows[place.row][own % kQuads] = scaled;
    } else {
      key_rows[place.row][own % kQuads] = scaled;
    }
  } else if (place.kind == 2) {
    value_rows[place.row][own % kQuads] = vector;
  }
  barrier();
}

// Row `index` of the sequence, number w of its block: updates the state; leaves the sums of the answer with the group.
void delta_step(uint index, uint w) {
  const uint key = first_key() / kQuad;
  const vec4 low_keys = key_rows[w][key];
  const vec4 high_keys = key_rows[w][key + 1];
  const float decay = decays[w];
  const uint turn = index % 2;
  const float own_seen = transposed_times(low_keys, high_keys);
  if ((key_lane & 1) == 0) seen[turn][key_part][column_of_sum()] = own_seen;
  barrier();
  vec4 sum;
  [[unroll]] for (uint i = 0; i < kQuad; ++i) {
    precise const float both = seen[turn][0][quad * kQuad + i] + seen[turn][1][quad * kQuad + i];
    sum[i] = both;
  }
  precise const vec4 expected = decay * sum;
  precise const vec4 delta = betas[w] * (value_rows[w][quad] - expected);
  update_state(low_keys, high_keys, delta, decay);
  const float own_answer = transposed_times(query_rows[w][key], query_rows[w][key + 1]);
  if ((key_lane & 1) == 0) answers[w][key_part][column_of_sum()] = own_answer;
  if (params.records != 0 && index < params.record_rows && key_part == 0 && key_lane == 0) {
    store_quad(params.delta_record, record_of(index) * params.value_dim + quad * kQuad, delta, quad * kQuad, params.value_dim);
  }
}

// Records keys and decays of `count` rows from `first` on.
void record_keys(uint first, uint count) {
  const BlockPlace place = block_place();
  if (place.kind != 0 || place.row >= count || first + place.row >= params.record_rows) return;
  const uint64_t record = record_of(first + place.row);
  store_quad(params.key_record, record * params.key_dim + place.begin, key_rows[place.row][own % kQuads], place.begin, params.key_dim);
  if (place.begin == 0) store_f32(params.decay_record, record, decays[place.row]);
}

// Outputs of `count` rows from `first` of the call on, normed and gated where the call has z.
void finish_rows(uint first, uint count) {
  const BlockPlace place = block_place();
  const bool works = place.kind == 0 && place.row < count;
  vec4 outputs = vec4(0.0);
  [[unroll]] for (uint i = 0; i < kQuad; ++i) {
    if (works && place.begin + i < params.value_dim) {
      precise const float both = answers[place.row][0][place.begin + i] + answers[place.row][1][place.begin + i];
      outputs[i] = both;
    }
  }
  const float squares = neighbour_sum(squares_of(outputs));
  if (works && own % kSquareLanes == 0) output_squares[place.row][own % kQuads / kSquareLanes] = squares;
  barrier();
  if (!works) return;
  precise float sum = 0.0;
  [[unroll]] for (uint i = 0; i < kSquares; ++i) sum = sum + output_squares[place.row][i];
  const float factor = 1.0 / sqrt(sum / float(params.value_dim) + params.eps);
  const uint64_t column = uint64_t(head) * params.value_dim + place.begin;
  [[unroll]] for (uint i = 0; i < kQuad; ++i) {
    if (place.begin + i >= params.value_dim) continue;
    precise float value = outputs[i];
    if (params.z != 0) {
      const float z = load_float(params.z, (first + place.row) * params.z_stride + column + i, params.z_is_bf16);
      value = load_f32(params.norm, place.begin + i) * (value * factor);
      value = value * silu(z);
    }
    store_float(params.out_, (first + place.row) * params.out_stride + column + i, value, params.out_is_bf16);
  }
}

void main() {
  rows = sequence_rows(gl_WorkGroupID.z);
  if (rows.count == 0) return;
  head = gl_WorkGroupID.y;
  own = thread_index();
  key_lane = own % kKeyLanes;
  quad = own / kKeyLanes % kQuads;
  key_part = own / (kKeyLanes * kQuads);
  load_state();
  vec4 vectors = load_vectors(rows.first, min(kRowBlock, rows.count));
  commit_rows();
  if (params.records != 0 && rows.committed > 0) store_state();
  for (uint first = 0; first < rows.count; first += kRowBlock) {
    const uint count = min(kRowBlock, rows.count - first);
    store_vectors(vectors, rows.first + first, count);
    const uint next = first + kRowBlock;
    if (next < rows.count) vectors = load_vectors(rows.first + next, min(kRowBlock, rows.count - next));
    for (uint w = 0; w < count; ++w) delta_step(first + w, w);
    barrier();
    finish_rows(rows.first + first, count);
    if (params.records != 0) record_keys(first, count);
  }
  if (params.records == 0) store_state();
}
