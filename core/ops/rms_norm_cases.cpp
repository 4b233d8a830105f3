#include <cmath>
#include <limits>

#include "core/op_case.h"
#include "core/ops/case_parts.h"
#include "core/ops/rms_norm.h"

namespace foretoken {
namespace {

struct NormShape {
  int64_t num_rows, hidden_size;
  DType dtype = DType::kF32;
  bool strided = false;
  bool in_place = false;
};

constexpr NormShape kShapes[] = {
    {1, 1024},
    {5, 2048},
    {3, 5120},
    {16, 2560},
    {70, 192},
    {1, 1},
    {2, 17},
    {4, 33},
    {3, 256},
    {4, 192, DType::kF32, true},
    {3, 33, DType::kF32, true},
    {5, 2048, DType::kF32, false, true},
    {4, 33, DType::kF32, true, true},
    {5, 2048, DType::kBF16},
    {3, 33, DType::kBF16, true},
    {2, 1024, DType::kBF16, false, true},
};

std::string name_of(const NormShape& shape) {
  using namespace case_parts;
  return sized("T", shape.num_rows) + sized("_H", shape.hidden_size) + (shape.strided ? "_strided" : "") +
         (shape.in_place ? "_in-place" : "") + activation_suffix(shape.dtype);
}

Tensor operand(OperandMaker& maker, const NormShape& shape, const Fill& fill) {
  const Shape extents{shape.num_rows, shape.hidden_size};
  if (shape.strided) return maker.strided(shape.dtype, extents, shape.hidden_size + (shape.hidden_size % 2 == 0 ? 64 : 4), fill);
  return fill ? maker.in_out(shape.dtype, extents, fill) : maker.output(shape.dtype, extents);
}

RmsNorm make_rms_norm(OperandMaker& maker, const NormShape& shape, const Fill& fill, float eps) {
  RmsNorm op;
  op.x = operand(maker, shape, fill);
  op.weight = maker.input(DType::kF32, {shape.hidden_size}, fill::normal(0.3));
  op.out = shape.in_place ? op.x : operand(maker, shape, {});
  op.eps = eps;
  return op;
}

OpCase<RmsNorm> special(const char* name, const NormShape& shape, const Fill& fill, float eps = 1e-6F) {
  return {.name = name, .make = [=](OperandMaker& maker) { return make_rms_norm(maker, shape, fill, eps); }};
}

}  // namespace

std::vector<OpCase<RmsNorm>> RmsNorm::cases() {
  using case_parts::with_patch;
  std::vector<OpCase<RmsNorm>> list;
  for (const NormShape& shape : kShapes) list.push_back(special(name_of(shape).c_str(), shape, fill::normal(1.0)));
  list.push_back(special("large_values", {3, 1024}, fill::normal(1e6)));
  list.push_back(special("outlier_channel", {3, 1024}, with_patch(fill::normal(0.1), 1024 + 7, 1, 3e4)));
  list.push_back(special("small_values", {3, 1024}, fill::normal(1e-5)));
  list.push_back(special("large_eps", {3, 1024}, fill::normal(0.1), 0.5F));
  list.push_back(special("zero_row", {3, 192}, with_patch(fill::normal(1.0), 192, 192, 0.0)));
  list.push_back(special("nan_row", {3, 192}, with_patch(fill::normal(1.0), 192 + 5, 1, std::nan(""))));
  list.push_back(
      special("infinity", {3, 192}, with_patch(fill::normal(1.0), 192 + 5, 1, std::numeric_limits<double>::infinity())));
  return list;
}

std::vector<OpCase<AddRmsNorm>> AddRmsNorm::cases() {
  std::vector<OpCase<AddRmsNorm>> list;
  const auto add = [&list](const std::string& name, const NormShape& shape, double sigma) {
    list.push_back({.name = name, .make = [shape, sigma](OperandMaker& maker) {
                      AddRmsNorm op;
                      op.x = operand(maker, shape, fill::normal(sigma));
                      op.residual = operand(maker, shape, fill::normal(2.0 * sigma));
                      op.weight = maker.input(DType::kF32, {shape.hidden_size}, fill::normal(0.3));
                      op.out = operand(maker, shape, {});
                      return op;
                    }});
  };
  for (const NormShape& shape : kShapes) {
    if (!shape.in_place) add(name_of(shape), shape, 1.0);
  }
  add("large_values", {3, 1024}, 1e6);
  return list;
}

}  // namespace foretoken
