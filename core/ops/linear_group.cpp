#include "core/ops/linear_group.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/ops/activations.h"

namespace foretoken {
namespace {

OpSchema&& with_projection(OpSchema&& schema, const std::string& number) {
  const std::string weight = "weight_" + number;
  const std::string rows = "N" + number;
  return std::move(schema)
      .in(weight, {rows, "K"}, kLinearWeightDtypes)
      .optional()
      .in(weight + "_scale", {"..."}, kScaleDtypes)
      .optional()
      .in(weight + "_global_scale", {"..."}, kF32Only)
      .optional()
      .out("out_" + number, {"T", rows}, kActivationDtypes)
      .optional()
      .strided();
}

}  // namespace

size_t LinearGroup::num_projections() const {
  size_t count = 0;
  for (const LinearWeight& weight : w) count += weight.weight.shape().rank() > 0 ? 1 : 0;
  return count;
}

Linear LinearGroup::projection(size_t i) const {
  return {.x = x, .w = w[i], .out = out[i], .workspace = workspace, .precision = precision};
}

std::array<const Tensor*, 2 + 4 * LinearGroup::kMaxProjections> LinearGroup::operands() const {
  std::array<const Tensor*, 2 + 4 * kMaxProjections> list{&x};
  for (size_t i = 0; i < kMaxProjections; ++i) {
    list[1 + 4 * i] = &w[i].weight;
    list[2 + 4 * i] = &w[i].scale;
    list[3 + 4 * i] = &w[i].global_scale;
    list[4 + 4 * i] = &out[i];
  }
  list.back() = &workspace;
  return list;
}

void LinearGroup::validate() const {
  const size_t count = num_projections();
  for (size_t i = 0; i < kMaxProjections; ++i) {
    const std::string name = "linear_group: weight_" + std::to_string(i);
    const bool is_expected = i < std::max<size_t>(count, 1);
    if (w[i].is_absent() == is_expected || out[i].is_absent() == is_expected) {
      throw Error(ErrorCode::kInvalidArgument, {.what = "weights and outputs must come in pairs, absent ones at the end",
                                                .where = name,
                                                .expected = is_expected ? "a weight and its output" : "neither",
                                                .got = std::string(w[i].is_absent() ? "no weight" : "a weight") +
                                                       (out[i].is_absent() ? ", no output" : ", an output")});
    }
    if (is_expected) check_weight(name, w[i]);
  }
}

const OpSchema& LinearGroup::schema() {
  static_assert(kMaxProjections == 4);
  static const OpSchema schema =
      with_projection(
          with_projection(
              with_projection(with_projection(OpSchema("linear_group").in("x", {"T", "K"}, kActivationDtypes).strided(), "0"),
                              "1"),
              "2"),
          "3")
          .workspace("workspace")
          .tolerance(DType::kF32, 1e-5)
          .tolerance(DType::kBF16, 1e-2);
  return schema;
}

}  // namespace foretoken
