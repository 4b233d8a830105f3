// Attention, delta rule, commit and norms on one thread, with the kernels of the best instruction set of this machine.
#include <benchmark/benchmark.h>

#include "tests/unit/cpu_kernels/direct_list.h"

namespace foretoken::cpu {
namespace {

DirectList& list() {
  static DirectList best(runs_here(Isa::kAvx512) ? Isa::kAvx512 : runs_here(Isa::kAvx2) ? Isa::kAvx2 : Isa::kScalar);
  return best;
}

/// Query heads per key head as in the checkpoints of the family: D 64: 4 / 2, D 256: 8 / 2.
void run_attention(benchmark::State& state, int64_t rows, int64_t context, int64_t head_dim, DType cache_dtype,
                   LinearPrecision precision) {
  constexpr int64_t kBlockSize = 16, kKeyHeads = 2;
  const int64_t query_heads = head_dim == 64 ? 4 : 8;
  const int64_t blocks = (context + kBlockSize - 1) / kBlockSize;
  const Shape cache_shape{blocks, kBlockSize, kKeyHeads, head_dim};
  const Floats k = random_floats(cache_shape, 1), v = random_floats(cache_shape, 2);
  const Halves k_half(DType::kBF16, cache_shape), v_half(DType::kBF16, cache_shape);
  const Codes k_codes(DType::kE4M3, cache_shape), v_codes(DType::kE4M3, cache_shape);
  const Floats scale(DType::kF32, {1}, {0.1F});
  const Floats q = random_floats({rows, query_heads, head_dim}, 3), gate = random_floats({rows, query_heads, 2 * head_dim}, 4);
  const Floats out = zeros({rows, query_heads, head_dim});
  const Ints table(DType::kI32, {1, blocks}), seq_lens = ints({static_cast<int32_t>(context)});
  const Ints starts = ints({0, static_cast<int32_t>(rows)});
  for (int64_t i = 0; i < blocks; ++i) table.data()[i] = static_cast<int32_t>(i);
  GatedAttention op{.q = q,
                    .q_gate = gate,
                    .k_cache = k,
                    .v_cache = v,
                    .block_table = table,
                    .seq_lens = seq_lens,
                    .query_start_loc = starts,
                    .out = out,
                    .workspace = {},
                    .scale = 0.125F,
                    .max_seq_len = context,
                    .precision = precision};
  if (cache_dtype == DType::kBF16) {
    op.k_cache = k_half;
    op.v_cache = v_half;
  } else if (cache_dtype == DType::kE4M3) {
    op.k_cache = k_codes;
    op.v_cache = v_codes;
    op.k_scale = op.v_scale = scale;
  }
  const Owned<uint8_t> workspace(DType::kU8, {static_cast<int64_t>(ops::workspace_bytes(list().ops(), op))});
  op.workspace = workspace;
  for (auto _ : state) ops::dispatch(list(), op);
  const auto bytes = static_cast<int64_t>(op.k_cache.view().bytes + op.v_cache.view().bytes);
  state.SetBytesProcessed(state.iterations() * bytes);
}

void attention(benchmark::State& state, int64_t rows, int64_t context, int64_t head_dim, DType cache_dtype) {
  run_attention(state, rows, context, head_dim, cache_dtype, LinearPrecision::kExact);
}

/// Attention of prefill where activations may be rounded; exact where the machine has no kernel for that.
void attention_bf16(benchmark::State& state, int64_t rows, int64_t context, int64_t head_dim, DType cache_dtype) {
  run_attention(state, rows, context, head_dim, cache_dtype, LinearPrecision::kBF16);
}

/// The delta rule with its gated norm, after the commit of `num_commit` rows.
void delta_rule(benchmark::State& state, int64_t rows, int64_t value_heads, int64_t dim, StateUpdate update, int32_t num_commit) {
  const int64_t key_heads = value_heads / 2, channels = 2 * key_heads * dim + value_heads * dim;
  const Floats qkv = random_floats({rows, channels}, 1), b = random_floats({rows, value_heads}, 2);
  const Floats a = random_floats({rows, value_heads}, 3), a_log = random_floats({value_heads}, 4),
               bias = random_floats({value_heads}, 5);
  const Floats states = random_floats({1, value_heads, dim, dim}, 6), out = zeros({rows, value_heads, dim});
  const bool is_recorded = update == StateUpdate::kRecord;
  const int64_t records = is_recorded ? std::max<int64_t>(rows, num_commit) : 0;
  const Floats keys = zeros({1, records, value_heads, dim}), deltas = zeros({1, records, value_heads, dim});
  const Floats decays = zeros({1, records, value_heads}), z = random_floats({rows, value_heads, dim}, 7);
  const Floats norm = random_floats({dim}, 8);
  const Ints starts = ints({0, static_cast<int32_t>(rows)}), slots = ints({0}), commits = ints({num_commit});
  const GatedDeltaRule op{.qkv = qkv,
                          .b = b,
                          .a = a,
                          .A_log = a_log,
                          .dt_bias = bias,
                          .query_start_loc = starts,
                          .state_slots = slots,
                          .num_commit = is_recorded ? Tensor(commits) : Tensor(),
                          .state = states,
                          .key_record = is_recorded ? Tensor(keys) : Tensor(),
                          .delta_record = is_recorded ? Tensor(deltas) : Tensor(),
                          .decay_record = is_recorded ? Tensor(decays) : Tensor(),
                          .z = z,
                          .norm = norm,
                          .out = out,
                          .update = update};
  for (auto _ : state) ops::dispatch(list(), op);
}

/// The delta rule of prefill where activations may be rounded; exact where the machine has no kernel for that.
void delta_rule_bf16(benchmark::State& state, int64_t rows, int64_t value_heads, int64_t dim) {
  const int64_t channels = 3 * value_heads * dim;
  const Floats qkv = random_floats({rows, channels}, 1), b = random_floats({rows, value_heads}, 2);
  const Floats a = random_floats({rows, value_heads}, 3), a_log = random_floats({value_heads}, 4),
               bias = random_floats({value_heads}, 5);
  const Floats states = random_floats({1, value_heads, dim, dim}, 6), out = zeros({rows, value_heads, dim});
  const Ints starts = ints({0, static_cast<int32_t>(rows)}), slots = ints({0});
  const GatedDeltaRule op{.qkv = qkv,
                          .b = b,
                          .a = a,
                          .A_log = a_log,
                          .dt_bias = bias,
                          .query_start_loc = starts,
                          .state_slots = slots,
                          .num_commit = {},
                          .state = states,
                          .key_record = {},
                          .delta_record = {},
                          .decay_record = {},
                          .z = {},
                          .norm = {},
                          .out = out,
                          .precision = LinearPrecision::kBF16};
  for (auto _ : state) ops::dispatch(list(), op);
}

/// The matrix product of prefill with weights of each format, all zero.
void linear_bf16(benchmark::State& state, int64_t rows, int64_t in_features, int64_t out_features, WeightFormat format) {
  const Shape shape{out_features, in_features};
  const Owned<uint8_t> codes(DType::kU8, {out_features * in_features * 2});
  const Floats x = random_floats({rows, in_features}, 1), out = zeros({rows, out_features});
  const Owned<uint8_t> scales(DType::kU8, {out_features * in_features});
  const Floats global_scale = zeros({1});
  LinearWeight w{.weight = Tensor(codes.tensor().view(), code_dtype(format), shape), .scale = {}, .global_scale = {}};
  w.format = format;
  if (format != WeightFormat::kBF16) {
    const DType scale_dtype = format == WeightFormat::kNvfp4 ? DType::kE4M3 : DType::kF32;
    w.scale = Tensor(scales.tensor().view(), scale_dtype, scale_shape(format, shape));
  }
  if (format == WeightFormat::kNvfp4) w.global_scale = global_scale;
  Linear op{.x = x, .w = w, .out = out, .workspace = {}, .precision = LinearPrecision::kBF16};
  if (!list().ops().availability("linear", &op)) {
    state.SkipWithError("no kernel for BF16 activations on this machine");
    return;
  }
  const Owned<uint8_t> workspace(DType::kU8, {static_cast<int64_t>(ops::workspace_bytes(list().ops(), op))});
  op.workspace = workspace;
  for (auto _ : state) ops::dispatch(list(), op);
  state.counters["flops"] = benchmark::Counter(2.0 * static_cast<double>(rows * in_features * out_features),
                                               benchmark::Counter::kIsIterationInvariantRate);
}

void rms_norm(benchmark::State& state, int64_t rows, int64_t hidden) {
  const Floats x = random_floats({rows, hidden}, 1), weight = random_floats({hidden}, 2), out = zeros({rows, hidden});
  const RmsNorm op{.x = x, .weight = weight, .out = out};
  for (auto _ : state) ops::dispatch(list(), op);
}

void causal_conv(benchmark::State& state, int64_t rows, int64_t channels) {
  const Floats x = random_floats({rows, channels}, 1), weight = random_floats({channels, 4}, 2), out = zeros({rows, channels});
  const Floats conv_state = zeros({1, channels, 3});
  const Ints starts = ints({0, static_cast<int32_t>(rows)}), slots = ints({0});
  const CausalConv1dSilu op{.x = x,
                            .weight = weight,
                            .query_start_loc = starts,
                            .state_slots = slots,
                            .num_commit = {},
                            .conv_state = conv_state,
                            .conv_record = {},
                            .out = out};
  for (auto _ : state) ops::dispatch(list(), op);
}

void argmax(benchmark::State& state, int64_t vocab_size) {
  const Floats logits = random_floats({1, vocab_size}, 1);
  const Ints ids = ints({0});
  const Argmax op{.logits = logits, .token_ids = ids};
  for (auto _ : state) ops::dispatch(list(), op);
}

BENCHMARK_CAPTURE(attention, rows1_ctx256_d64, 1, 256, 64, DType::kF32);
BENCHMARK_CAPTURE(attention, rows4_ctx256_d64, 4, 256, 64, DType::kF32);
BENCHMARK_CAPTURE(attention, rows1_ctx3000_d64, 1, 3000, 64, DType::kF32);
BENCHMARK_CAPTURE(attention, rows4_ctx3000_d64, 4, 3000, 64, DType::kF32);
BENCHMARK_CAPTURE(attention, rows1_ctx256_d256, 1, 256, 256, DType::kF32);
BENCHMARK_CAPTURE(attention, rows4_ctx256_d256, 4, 256, 256, DType::kF32);
BENCHMARK_CAPTURE(attention, rows1_ctx3000_d256, 1, 3000, 256, DType::kF32);
BENCHMARK_CAPTURE(attention, rows4_ctx3000_d256, 4, 3000, 256, DType::kF32);
BENCHMARK_CAPTURE(attention, rows1_ctx3000_d256_bf16, 1, 3000, 256, DType::kBF16);
BENCHMARK_CAPTURE(attention, rows4_ctx3000_d256_bf16, 4, 3000, 256, DType::kBF16);
BENCHMARK_CAPTURE(attention, rows1_ctx3000_d256_fp8, 1, 3000, 256, DType::kE4M3);
BENCHMARK_CAPTURE(attention, rows4_ctx3000_d256_fp8, 4, 3000, 256, DType::kE4M3);
BENCHMARK_CAPTURE(attention, prefill512_d64, 512, 512, 64, DType::kF32);
BENCHMARK_CAPTURE(attention, prefill256_d256, 256, 256, 256, DType::kF32);
BENCHMARK_CAPTURE(attention, prefill512_d256, 512, 512, 256, DType::kF32);
BENCHMARK_CAPTURE(attention_bf16, prefill512_d64, 512, 512, 64, DType::kBF16);
BENCHMARK_CAPTURE(attention_bf16, prefill256_d256, 256, 256, 256, DType::kBF16);
BENCHMARK_CAPTURE(attention_bf16, prefill512_d256, 512, 512, 256, DType::kBF16);
BENCHMARK_CAPTURE(attention_bf16, prefill512_ctx4096_d256, 512, 4096, 256, DType::kBF16);
BENCHMARK_CAPTURE(attention_bf16, prefill512_d256_fp8, 512, 512, 256, DType::kE4M3);
BENCHMARK_CAPTURE(attention_bf16, prefill512_d256_f32, 512, 512, 256, DType::kF32);
BENCHMARK_CAPTURE(delta_rule, rows1_4x64, 1, 4, 64, StateUpdate::kInPlace, 0);
BENCHMARK_CAPTURE(delta_rule, rows4_4x64_record, 4, 4, 64, StateUpdate::kRecord, 2);
BENCHMARK_CAPTURE(delta_rule, rows512_4x64, 512, 4, 64, StateUpdate::kInPlace, 0);
BENCHMARK_CAPTURE(delta_rule, rows1_16x128, 1, 16, 128, StateUpdate::kInPlace, 0);
BENCHMARK_CAPTURE(delta_rule, rows256_16x128, 256, 16, 128, StateUpdate::kInPlace, 0);
BENCHMARK_CAPTURE(delta_rule, rows4_16x128_record, 4, 16, 128, StateUpdate::kRecord, 2);
BENCHMARK_CAPTURE(delta_rule_bf16, rows256_16x128, 256, 16, 128);
BENCHMARK_CAPTURE(linear_bf16, rows256_k1024_n3584_bf16, 256, 1024, 3584, WeightFormat::kBF16);
BENCHMARK_CAPTURE(linear_bf16, rows256_k1024_n3584_fp8_row, 256, 1024, 3584, WeightFormat::kFp8Row);
BENCHMARK_CAPTURE(linear_bf16, rows256_k1024_n3584_fp8_block, 256, 1024, 3584, WeightFormat::kFp8Block);
BENCHMARK_CAPTURE(linear_bf16, rows256_k1024_n3584_nvfp4, 256, 1024, 3584, WeightFormat::kNvfp4);
BENCHMARK_CAPTURE(linear_bf16, rows256_k3584_n1024_bf16, 256, 3584, 1024, WeightFormat::kBF16);
BENCHMARK_CAPTURE(rms_norm, rows1_h192, 1, 192);
BENCHMARK_CAPTURE(rms_norm, rows1_h5120, 1, 5120);
BENCHMARK_CAPTURE(causal_conv, rows1_c512, 1, 512);
BENCHMARK_CAPTURE(causal_conv, rows4_c8192, 4, 8192);
BENCHMARK_CAPTURE(causal_conv, rows256_c6144, 256, 6144);
BENCHMARK_CAPTURE(argmax, v248320, 248320);

}  // namespace
}  // namespace foretoken::cpu
