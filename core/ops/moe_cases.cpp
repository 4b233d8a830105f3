#include "core/ops/moe.h"

#include <cmath>

#include "core/op_case.h"
#include "core/ops/case_parts.h"

namespace foretoken {
namespace {

struct MoeShape {
  int64_t num_tokens, num_experts, top_k, hidden_size, intermediate_size;
  case_parts::WeightKind weight{};
  bool strided = false;
  DType dtype = DType::kF32;
  bool crowded = false;  // every row picks the same experts
  LinearPrecision precision = LinearPrecision::kExact;
  bool f32_out = false;  // whatever the activations are
};

/// A shape with BF16 activations and exact results.
constexpr MoeShape bf16_rows(int64_t num_tokens, int64_t num_experts, int64_t top_k, int64_t hidden_size,
                             int64_t intermediate_size, case_parts::WeightKind weight = {}, bool strided = false,
                             bool crowded = false) {
  return {.num_tokens = num_tokens,
          .num_experts = num_experts,
          .top_k = top_k,
          .hidden_size = hidden_size,
          .intermediate_size = intermediate_size,
          .weight = weight,
          .strided = strided,
          .dtype = DType::kBF16,
          .crowded = crowded,
          .f32_out = true};
}

using case_parts::WeightKind;
constexpr WeightKind kBF16Weight{};
constexpr WeightKind kF32Weight{.format = WeightFormat::kF32};
constexpr WeightKind kFp8Row{.format = WeightFormat::kFp8Row};
constexpr WeightKind kFp8RowBF16{.format = WeightFormat::kFp8Row, .scale_dtype = DType::kBF16};
constexpr WeightKind kFp8Block{.format = WeightFormat::kFp8Block};
constexpr WeightKind kFp8BlockBF16{.format = WeightFormat::kFp8Block, .scale_dtype = DType::kBF16};
constexpr WeightKind kNvfp4{.format = WeightFormat::kNvfp4};
constexpr WeightKind kNvfp4G2{.format = WeightFormat::kNvfp4, .num_global_scales = 2};
constexpr WeightKind kFp8Block32{.format = WeightFormat::kFp8Block, .block_rows = 32};

constexpr MoeShape kShapes[] = {
    {1, 8, 2, 192, 64},
    {5, 8, 2, 192, 64},
    {4, 256, 8, 128, 32},
    {16, 32, 8, 128, 64},
    {1, 8, 8, 2048, 32},
    {2, 8, 2, 64, 512},
    {70, 8, 2, 64, 32},
    {3, 4, 2, 33, 17},
    {1, 1, 1, 1, 1},
    {5, 8, 2, 192, 64, kF32Weight},
    {3, 4, 3, 33, 17, kF32Weight},
    {5, 8, 2, 192, 64, kBF16Weight, true},
    {9, 16, 2, 64, 32, kBF16Weight, false, DType::kF32, true},
    {5, 8, 2, 192, 64, kBF16Weight, false, DType::kBF16},
    {5, 8, 2, 192, 64, kFp8Row},
    {3, 4, 3, 33, 17, kFp8RowBF16},
    {1, 8, 4, 256, 128, kFp8BlockBF16},
    {4, 64, 8, 128, 32, kFp8Block},
    {5, 8, 2, 200, 100, kFp8BlockBF16, true},
    {6, 4, 2, 192, 96, kFp8Block32},
    {9, 16, 2, 64, 32, kFp8Block32, false, DType::kF32, true},
    {1, 8, 4, 256, 128, kNvfp4G2},
    {5, 8, 2, 192, 64, kNvfp4},
    {3, 4, 3, 48, 16, kNvfp4G2, true},
    {9, 16, 2, 64, 32, kNvfp4, false, DType::kF32, true},
    bf16_rows(1, 8, 2, 2048, 512),
    bf16_rows(8, 64, 8, 128, 512),
    bf16_rows(7, 300, 10, 192, 96),
    bf16_rows(8, 16, 4, 1096, 72, kBF16Weight, true),
    bf16_rows(8, 8, 8, 64, 136, kBF16Weight, false, true),
    bf16_rows(17, 16, 4, 256, 128),
    bf16_rows(40, 8, 2, 200, 1040, kBF16Weight, false, true),
    bf16_rows(1, 8, 4, 2048, 512, kFp8Row),
    bf16_rows(6, 16, 8, 208, 80, kFp8RowBF16, true),
    bf16_rows(19, 8, 2, 128, 64, kFp8Row),
    bf16_rows(1, 8, 4, 2048, 512, kFp8BlockBF16),
    bf16_rows(8, 32, 8, 384, 256, kFp8Block),
    bf16_rows(5, 8, 2, 176, 104, kFp8Block32),
    bf16_rows(24, 8, 2, 256, 128, kFp8BlockBF16, false, true),
    bf16_rows(1, 8, 4, 2048, 512, kNvfp4G2),
    bf16_rows(8, 32, 8, 288, 96, kNvfp4),
    bf16_rows(3, 16, 5, 640, 224, kNvfp4G2, true),
    bf16_rows(18, 8, 2, 256, 128, kNvfp4G2, false, true),
    {40, 16, 4, 128, 64, kBF16Weight, false, DType::kBF16, false, LinearPrecision::kBF16},
    {100, 8, 2, 192, 128, kBF16Weight, true, DType::kBF16, false, LinearPrecision::kBF16},
    {70, 16, 2, 320, 64, kBF16Weight, false, DType::kBF16, true, LinearPrecision::kBF16},
    {200, 4, 2, 128, 192, kBF16Weight, false, DType::kBF16, false, LinearPrecision::kBF16},
    {33, 8, 2, 64, 64, kBF16Weight, false, DType::kF32, false, LinearPrecision::kBF16},
    {33, 8, 2, 256, 64, kFp8Block, false, DType::kBF16, false, LinearPrecision::kBF16},
    {60, 8, 4, 192, 128, kFp8RowBF16, true, DType::kBF16, false, LinearPrecision::kBF16},
    {45, 4, 2, 128, 64, kNvfp4G2, false, DType::kBF16, false, LinearPrecision::kBF16},
};

std::string name_of(const MoeShape& shape) {
  using namespace case_parts;
  return sized("T", shape.num_tokens) + sized("_E", shape.num_experts) + sized("_k", shape.top_k) +
         sized("_H", shape.hidden_size) + sized("_I", shape.intermediate_size) + "_" + name_of(shape.weight) +
         (shape.strided ? "_strided" : "") + (shape.crowded ? "_crowded" : "") +
         (shape.precision == LinearPrecision::kBF16 ? "_prefill" : "") + (shape.f32_out ? "_out-f32" : "") +
         activation_suffix(shape.dtype);
}

/// What moe_route would give for random logits.
struct Route {
  std::vector<int32_t> topk_ids, expert_offsets, expert_pairs;
};

Route draw_route(const MoeShape& shape, uint64_t seed) {
  Route route;
  for (int64_t t = 0; t < shape.num_tokens; ++t) {
    std::mt19937_64 generator(shape.crowded ? seed : seed + static_cast<uint64_t>(t) * 7919);
    const auto ids = case_parts::sample_distinct(generator, shape.num_experts, shape.top_k);
    route.topk_ids.insert(route.topk_ids.end(), ids.begin(), ids.end());
  }
  route.expert_offsets.push_back(0);
  for (int32_t expert = 0; expert < shape.num_experts; ++expert) {
    for (size_t pair = 0; pair < route.topk_ids.size(); ++pair) {
      if (route.topk_ids[pair] == expert) route.expert_pairs.push_back(static_cast<int32_t>(pair));
    }
    route.expert_offsets.push_back(static_cast<int32_t>(route.expert_pairs.size()));
  }
  return route;
}

DType out_dtype(const MoeShape& shape) { return shape.f32_out ? DType::kF32 : shape.dtype; }

Tensor rows_of(OperandMaker& maker, const MoeShape& shape, const Fill& fill) {
  const Shape extents{shape.num_tokens, shape.hidden_size};
  const DType dtype = fill ? shape.dtype : out_dtype(shape);
  if (shape.strided) return maker.strided(dtype, extents, shape.hidden_size + 16, fill);
  return fill ? maker.input(dtype, extents, fill) : maker.output(dtype, extents);
}

MoeExpertsUp make_up(OperandMaker& maker, const MoeShape& shape) {
  const Route route = draw_route(shape, maker.seed());
  MoeExpertsUp op;
  op.x = rows_of(maker, shape, fill::normal(1.0));
  op.gate_up = case_parts::weight_of(maker, shape.weight, {shape.num_experts, 2 * shape.intermediate_size, shape.hidden_size},
                                     1.0 / std::sqrt(static_cast<double>(shape.hidden_size)));
  op.expert_offsets = maker.input(DType::kI32, {shape.num_experts + 1}, case_parts::listed(route.expert_offsets));
  op.expert_pairs = maker.input(DType::kI32, {shape.num_tokens * shape.top_k}, case_parts::listed(route.expert_pairs));
  op.out = maker.output(out_dtype(shape), {shape.num_tokens, shape.top_k, shape.intermediate_size});
  op.precision = shape.precision;
  return op;
}

MoeExpertsDown make_down(OperandMaker& maker, const MoeShape& shape, bool with_shared) {
  const Route route = draw_route(shape, maker.seed());
  MoeExpertsDown op;
  op.act = maker.input(shape.dtype, {shape.num_tokens, shape.top_k, shape.intermediate_size}, fill::normal(1.0));
  op.down = case_parts::weight_of(maker, shape.weight, {shape.num_experts, shape.hidden_size, shape.intermediate_size},
                                  1.0 / std::sqrt(static_cast<double>(shape.intermediate_size)));
  op.topk_ids = maker.input(DType::kI32, {shape.num_tokens, shape.top_k}, case_parts::listed(route.topk_ids));
  op.topk_weights = maker.input(DType::kF32, {shape.num_tokens, shape.top_k}, fill::uniform(0.05, 0.5));
  op.expert_offsets = maker.input(DType::kI32, {shape.num_experts + 1}, case_parts::listed(route.expert_offsets));
  op.expert_pairs = maker.input(DType::kI32, {shape.num_tokens * shape.top_k}, case_parts::listed(route.expert_pairs));
  if (with_shared) {
    op.shared = rows_of(maker, shape, fill::normal(1.0));
    op.shared_gate = shape.strided ? maker.strided(DType::kF32, {shape.num_tokens, 1}, 3, fill::normal(1.0))
                                   : maker.input(DType::kF32, {shape.num_tokens, 1}, fill::normal(1.0));
  }
  op.out = rows_of(maker, shape, {});
  op.precision = shape.precision;
  return op;
}

/// What rounding the activations to BF16 may cost.
double tolerance_of(const MoeShape& shape) { return shape.precision == LinearPrecision::kBF16 ? 1e-2 : 0.0; }

/// Multiples of 1/16: far enough apart that float32 and float64 rank them alike, with many exact ties.
Fill stepped_logits(int64_t steps) {
  return [steps](std::mt19937_64& generator, std::span<double> values) {
    fill::integers(-steps, steps)(generator, values);
    for (double& value : values) value /= 16.0;
  };
}

}  // namespace

std::vector<OpCase<MoeRoute>> MoeRoute::cases() {
  std::vector<OpCase<MoeRoute>> list;
  const auto add = [&list](const std::string& name, int64_t num_tokens, int64_t num_experts, int64_t top_k, bool renormalise,
                           const Fill& fill, int64_t row_stride = 0) {
    using case_parts::sized;
    const std::string full = name + sized("_T", num_tokens) + sized("_E", num_experts) + sized("_k", top_k) +
                             (renormalise ? "" : "_not-renormalised") + (row_stride > 0 ? "_strided" : "");
    list.push_back({.name = full, .make = [=](OperandMaker& maker) {
                      const Shape logits{num_tokens, num_experts};
                      MoeRoute op;
                      op.logits = row_stride > 0 ? maker.strided(DType::kF32, logits, row_stride, fill)
                                                 : maker.input(DType::kF32, logits, fill);
                      op.topk_ids = maker.output(DType::kI32, {num_tokens, top_k});
                      op.topk_weights = maker.output(DType::kF32, {num_tokens, top_k});
                      op.expert_offsets = maker.output(DType::kI32, {num_experts + 1});
                      op.expert_pairs = maker.output(DType::kI32, {num_tokens * top_k});
                      op.norm_topk_prob = renormalise;
                      return op;
                    }});
  };
  for (const bool renormalise : {true, false}) {
    add("ties", 1, 256, 8, renormalise, stepped_logits(40));
    add("ties", 8, 256, 8, renormalise, stepped_logits(40));
    add("ties", 16, 256, 8, renormalise, stepped_logits(40));
    add("ties", 5, 8, 2, renormalise, stepped_logits(20));
    add("ties", 3, 512, 10, renormalise, stepped_logits(60));
  }
  add("ties", 7, 32, 8, true, stepped_logits(3));
  add("all_equal", 3, 33, 5, true, fill::constant(0.25));
  add("single", 1, 1, 1, true, stepped_logits(20));
  add("all_chosen", 2, 4, 4, true, stepped_logits(20));
  add("ties", 4, 30, 3, true, stepped_logits(40), 41);
  add("prefill", 70, 8, 2, true, stepped_logits(40));
  add("large", 4, 64, 2, false, stepped_logits(900));
  return list;
}

std::vector<OpCase<MoeExpertsUp>> MoeExpertsUp::cases() {
  std::vector<OpCase<MoeExpertsUp>> list;
  for (const MoeShape& shape : kShapes) {
    list.push_back({.name = name_of(shape),
                    .make = [shape](OperandMaker& maker) { return make_up(maker, shape); },
                    .tolerance_override = tolerance_of(shape)});
  }
  return list;
}

std::vector<OpCase<MoeExpertsDown>> MoeExpertsDown::cases() {
  std::vector<OpCase<MoeExpertsDown>> list;
  for (const MoeShape& shape : kShapes) {
    for (const bool with_shared : {true, false}) {
      list.push_back({.name = name_of(shape) + (with_shared ? "_shared" : ""),
                      .make = [shape, with_shared](OperandMaker& maker) { return make_down(maker, shape, with_shared); },
                      .tolerance_override = tolerance_of(shape)});
    }
  }
  return list;
}

}  // namespace foretoken
