#include <algorithm>
#include <cmath>

#include "core/op_case.h"
#include "core/ops/case_parts.h"
#include "core/ops/linear_group.h"

namespace foretoken {
namespace {

using case_parts::WeightKind;

struct Projection {
  int64_t out_features;
  WeightKind weight{};
};

struct GroupShape {
  int64_t num_tokens, in_features;
  std::vector<Projection> projections;
  DType dtype = DType::kF32;  // of x
  bool strided = false;
  LinearPrecision precision = LinearPrecision::kExact;
  DType out_dtype = DType::kF32;
};

constexpr WeightKind kF32Weight{.format = WeightFormat::kF32};
constexpr WeightKind kBF16Weight{};
constexpr WeightKind kFp8Row{.format = WeightFormat::kFp8Row};
constexpr WeightKind kFp8Block{.format = WeightFormat::kFp8Block};
constexpr WeightKind kNvfp4{.format = WeightFormat::kNvfp4};

/// Projections of released models: q | k | v, k | v, qkv | z | b | a, router | shared_expert_gate; then formats that differ, and
/// odd sizes.
std::vector<GroupShape> shapes() {
  constexpr bool kStrided = true;
  return {
      {1, 1024, {{512}, {64}, {64}}},
      {4, 1024, {{512}, {64}, {64}}},
      {3, 2048, {{96}, {96}}},
      {1, 1024, {{384}, {128}, {16}, {16}}},
      {16, 192, {{320}, {96}, {4}, {4}}},
      {5, 2048, {{64}, {1}}},
      {17, 192, {{64}, {33}, {1}}},
      {33, 100, {{7}, {40}, {3}, {1}}},
      {1, 1, {{1}}},
      {2, 17, {{5}, {33}}},
      {8, 1024, {{128}, {32}, {32}}, DType::kBF16},
      {1, 2048, {{64}, {1}}, DType::kBF16, kStrided},
      {2, 192, {{64}, {32}}, DType::kBF16, false, LinearPrecision::kExact, DType::kBF16},
      {4, 256, {{100}, {36}, {8}}, DType::kF32, kStrided},
      {4, 192, {{64, kF32Weight}, {32, kBF16Weight}}},
      {4, 1024, {{256, kFp8Row}, {64, kFp8Row}, {64, kFp8Row}}},
      {3, 300, {{130, kFp8Block}, {70, kFp8Block}}},
      {1, 1024, {{384, kFp8Block}, {128, kFp8Block}, {16}, {16}}},
      {8, 1024, {{384, kNvfp4}, {128, kNvfp4}, {16}, {16}}},
      {1, 2048, {{96, kNvfp4}, {96, kNvfp4}, {96, kFp8Block}, {5, kF32Weight}}},
      {6, 512, {{128, kFp8Block}, {64, kNvfp4}, {64, kNvfp4}}, DType::kBF16, kStrided},
      {32, 192, {{64}, {32}, {32}}, DType::kF32, false, LinearPrecision::kBF16},
      {64, 192, {{96, kFp8Block}, {32, kNvfp4}, {4}}, DType::kF32, kStrided, LinearPrecision::kBF16},
      {33, 256, {{96}, {32, kFp8Row}}, DType::kBF16, false, LinearPrecision::kBF16},
  };
}

std::string name_of(const GroupShape& shape) {
  using namespace case_parts;
  std::string name = sized("T", shape.num_tokens) + sized("_K", shape.in_features);
  for (const Projection& one : shape.projections) name += sized("_N", one.out_features) + "_" + name_of(one.weight);
  return name + (shape.strided ? "_strided" : "") + (shape.precision == LinearPrecision::kBF16 ? "_prefill" : "") +
         activation_suffix(shape.dtype) + (shape.out_dtype == DType::kBF16 ? "_out-bf16" : "");
}

Tensor rows_of(OperandMaker& maker, const GroupShape& shape, DType dtype, int64_t width, const Fill& fill) {
  const Shape extents{shape.num_tokens, width};
  if (shape.strided) return maker.strided(dtype, extents, width + (width % 2 == 0 ? 32 : 3), fill);
  return fill ? maker.input(dtype, extents, fill) : maker.output(dtype, extents);
}

OpCase<LinearGroup> group_case(const std::string& name, const GroupShape& shape, const Fill& fill) {
  return {.name = name,
          .make =
              [shape, fill](OperandMaker& maker) {
                const double sigma = 1.0 / std::sqrt(static_cast<double>(shape.in_features));
                LinearGroup op;
                op.x = rows_of(maker, shape, shape.dtype, shape.in_features, fill);
                for (size_t i = 0; i < shape.projections.size(); ++i) {
                  const Projection& one = shape.projections[i];
                  op.w[i] = case_parts::weight_of(maker, one.weight, {one.out_features, shape.in_features}, sigma);
                  op.out[i] = rows_of(maker, shape, shape.out_dtype, one.out_features, {});
                }
                op.precision = shape.precision;
                return op;
              },
          .tolerance_override = shape.precision == LinearPrecision::kBF16 ? 1e-2 : 0.0};
}

}  // namespace

std::vector<OpCase<LinearGroup>> LinearGroup::cases() {
  std::vector<OpCase<LinearGroup>> list;
  for (const GroupShape& shape : shapes()) list.push_back(group_case(name_of(shape), shape, fill::normal(1.0)));
  const Fill nan_row = case_parts::with_patch(fill::normal(1.0), 192 + 3, 1, std::nan(""));
  list.push_back(group_case("nan_row", {4, 192, {{64}, {32}, {1}}}, nan_row));
  return list;
}

}  // namespace foretoken
