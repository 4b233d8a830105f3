#include "core/op_case.h"
#include "core/ops/case_parts.h"
#include "core/ops/rms_norm_gated.h"

namespace foretoken {
namespace {

struct GatedNormShape {
  int64_t num_tokens, num_heads, head_dim;
  DType dtype = DType::kF32;
  bool strided = false;
  bool in_place = false;
  double gate_sigma = 1.0;
};

constexpr GatedNormShape kShapes[] = {
    {5, 16, 128},
    {1, 48, 128},
    {70, 4, 64},
    {2, 3, 17},
    {1, 1, 1},
    {4, 4, 64, DType::kF32, true},
    {3, 3, 17, DType::kF32, true},
    {4, 16, 128, DType::kF32, false, true},
    {4, 4, 64, DType::kF32, true, true},
    {4, 4, 64, DType::kF32, false, false, 40.0},
    {5, 16, 128, DType::kBF16},
    {4, 4, 64, DType::kBF16, true},
};

Tensor operand(OperandMaker& maker, const GatedNormShape& shape, const Fill& fill) {
  const int64_t row = shape.num_heads * shape.head_dim;
  const Shape extents{shape.num_tokens, shape.num_heads, shape.head_dim};
  if (shape.strided) return maker.strided(shape.dtype, {shape.num_tokens, row}, 2 * row + 5, fill).reshape(extents);
  return fill ? maker.in_out(shape.dtype, extents, fill) : maker.output(shape.dtype, extents);
}

}  // namespace

std::vector<OpCase<RmsNormGated>> RmsNormGated::cases() {
  using namespace case_parts;
  std::vector<OpCase<RmsNormGated>> list;
  for (const GatedNormShape& shape : kShapes) {
    const std::string name = sized("T", shape.num_tokens) + sized("_Hv", shape.num_heads) + sized("_D", shape.head_dim) +
                             (shape.strided ? "_strided" : "") + (shape.in_place ? "_in-place" : "") +
                             (shape.gate_sigma > 1.0 ? "_large-gates" : "") + activation_suffix(shape.dtype);
    list.push_back({.name = name, .make = [shape](OperandMaker& maker) {
                      RmsNormGated op;
                      op.x = operand(maker, shape, fill::normal(1.0));
                      op.gate = operand(maker, shape, fill::normal(shape.gate_sigma));
                      op.weight = maker.input(DType::kF32, {shape.head_dim}, fill::uniform(0.5, 1.5));
                      op.out = shape.in_place ? op.x : operand(maker, shape, {});
                      return op;
                    }});
  }
  return list;
}

}  // namespace foretoken
