#include <cmath>

#include "core/op_case.h"
#include "core/ops/case_parts.h"
#include "core/ops/moe_block.h"

namespace foretoken {
namespace {

using case_parts::WeightKind;

struct BlockShape {
  int64_t num_tokens, num_experts, top_k, hidden_size, intermediate_size, shared_size;
  WeightKind weight{};
  DType dtype = DType::kBF16;
  bool norm_topk_prob = true;
  bool shared_like_router = false;  // not of the experts' format
};

constexpr WeightKind kF32Weight{.format = WeightFormat::kF32};
constexpr WeightKind kBF16Weight{};
constexpr WeightKind kFp8Block{.format = WeightFormat::kFp8Block};
constexpr WeightKind kNvfp4{.format = WeightFormat::kNvfp4};

constexpr BlockShape kShapes[] = {
    {1, 8, 2, 192, 64, 96},
    {1, 64, 8, 512, 128, 128},
    {5, 16, 4, 256, 128, 64, kBF16Weight, DType::kBF16, false},
    {8, 300, 10, 192, 96, 96},
    {8, 8, 8, 128, 72, 40},
    {11, 16, 2, 256, 64, 64},
    {1, 8, 2, 192, 64, 96, kBF16Weight, DType::kF32},
    {4, 8, 2, 192, 64, 96, kBF16Weight, DType::kF32, false},
    {3, 4, 3, 33, 17, 5, kF32Weight, DType::kF32},
    {2, 8, 2, 384, 256, 128, kFp8Block},
    {3, 8, 2, 384, 256, 128, kFp8Block, DType::kF32},
    {2, 8, 2, 256, 64, 64, kNvfp4},
    {2, 16, 8, 512, 128, 64},
    {2, 64, 8, 512, 192, 128, kBF16Weight, DType::kBF16, false},
    {1, 32, 8, 512, 128, 512},
    {1, 4, 2, 2048, 256, 64, kNvfp4, DType::kBF16, true, true},
    {2, 8, 3, 2048, 256, 64, kNvfp4, DType::kBF16, true, true},
};

std::string name_of(const BlockShape& shape) {
  using namespace case_parts;
  return sized("T", shape.num_tokens) + sized("_E", shape.num_experts) + sized("_k", shape.top_k) +
         sized("_H", shape.hidden_size) + sized("_I", shape.intermediate_size) + sized("_S", shape.shared_size) + "_" +
         name_of(shape.weight) + (shape.norm_topk_prob ? "" : "_all-experts") +
         (shape.shared_like_router ? "_shared-like-router" : "") + activation_suffix(shape.dtype);
}

MoeBlock make_block(OperandMaker& maker, const BlockShape& shape) {
  const int64_t rows = shape.num_tokens;
  const auto weight = [&maker](const WeightKind& kind, const Shape& extents) {
    const auto width = static_cast<double>(extents[extents.rank() - 1]);
    return case_parts::weight_of(maker, kind, extents, 1.0 / std::sqrt(width));
  };
  // Like checkpoints: routers are not quantised.
  const WeightKind router = shape.weight.format == WeightFormat::kF32 ? kF32Weight : kBF16Weight;
  const WeightKind shared = shape.shared_like_router ? router : shape.weight;
  MoeBlock op;
  op.x = maker.input(shape.dtype, {rows, shape.hidden_size}, fill::normal(1.0));
  op.router = weight(router, {shape.num_experts, shape.hidden_size});
  op.shared_expert_gate = weight(router, {1, shape.hidden_size});
  op.shared_gate = weight(shared, {shape.shared_size, shape.hidden_size});
  op.shared_up = weight(shared, {shape.shared_size, shape.hidden_size});
  op.shared_down = weight(shared, {shape.hidden_size, shape.shared_size});
  op.gate_up = weight(shape.weight, {shape.num_experts, 2 * shape.intermediate_size, shape.hidden_size});
  op.down = weight(shape.weight, {shape.num_experts, shape.hidden_size, shape.intermediate_size});
  op.logits = maker.output(DType::kF32, {rows, shape.num_experts});
  op.shared_score = maker.output(DType::kF32, {rows, 1});
  op.shared_act = maker.output(shape.dtype, {rows, shape.shared_size});
  op.shared = maker.output(DType::kF32, {rows, shape.hidden_size});
  op.topk_ids = maker.output(DType::kI32, {rows, shape.top_k});
  op.topk_weights = maker.output(DType::kF32, {rows, shape.top_k});
  op.expert_offsets = maker.output(DType::kI32, {shape.num_experts + 1});
  op.expert_pairs = maker.output(DType::kI32, {rows * shape.top_k});
  op.act = maker.output(shape.dtype, {rows, shape.top_k, shape.intermediate_size});
  op.out = maker.output(DType::kF32, {rows, shape.hidden_size});
  op.norm_topk_prob = shape.norm_topk_prob;
  return op;
}

}  // namespace

std::vector<OpCase<MoeBlock>> MoeBlock::cases() {
  std::vector<OpCase<MoeBlock>> list;
  for (const BlockShape& shape : kShapes) {
    // Values that are rounded on the way may fall to either side.
    list.push_back({.name = name_of(shape),
                    .make = [shape](OperandMaker& maker) { return make_block(maker, shape); },
                    .tolerance_override = shape.dtype == DType::kBF16 ? 1e-2 : 0.0});
  }
  return list;
}

}  // namespace foretoken
