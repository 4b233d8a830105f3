#include "models/weight_map_planner.h"

#include <algorithm>

#include "core/error.h"

namespace foretoken {
namespace {

constexpr int64_t kBlock = 128;  // FP8 block scales

Shape stacked_shape(int64_t experts, int64_t rows, int64_t columns) {
  return experts == 0 ? Shape{rows, columns} : Shape{experts, rows / experts, columns};
}

/// Why these parts cannot be one weight, whatever the device; empty when they can.
std::string stacking_obstacle(const WeightCatalog& catalog, const std::vector<StoredLinear>& parts) {
  if (parts.size() == 1) return {};
  for (const StoredLinear& part : parts) {
    if (part.format == WeightFormat::kNvfp4) return "NVFP4 parts of one weight each with their own global scale";
    if (part.format == WeightFormat::kFp8Row && part.scale_rows(catalog) != part.n)
      return "FP8 parts of one weight with one scale each";
    if (part.format == WeightFormat::kFp8Block && part.n % kBlock != 0)
      return "FP8 block scales that straddle parts of one weight";
  }
  return {};
}

}  // namespace

PlannedTensor& WeightPlanner::add(const std::string& name, Tensor& slot, DType dtype, const Shape& shape, WeightPart part,
                                  WeightFormat format) {
  PlannedTensor planned;
  planned.name = name;
  planned.slot = &slot;
  planned.dtype = dtype;
  planned.shape = shape;
  planned.part = part;
  planned.format = format;
  planned.draft = draft_;
  plan_.tensors.push_back(std::move(planned));
  return plan_.tensors.back();
}

void WeightPlanner::add_f32(const std::string& name, Tensor& slot, const Shape& stored, const Shape& shape, WeightPart part) {
  const size_t index = catalog_.require(name, {DType::kF32, DType::kBF16}, stored);
  const bool is_bf16 = catalog_.tensor(index).dtype == DType::kBF16;
  PlannedTensor& planned = add(name, slot, DType::kF32, shape, part, WeightFormat::kF32);
  planned.pieces.push_back({.tensor = index, .bytes = catalog_.tensor(index).bytes});
  planned.conversion = is_bf16 ? Conversion::kBf16ToF32 : Conversion::kNone;
}

void WeightPlanner::add_table(const std::string& name, Tensor& slot, const Shape& shape) {
  const size_t index = catalog_.require(name, {DType::kF32, DType::kBF16}, shape);
  const DType dtype = *catalog_.tensor(index).dtype;
  const WeightFormat format = dtype == DType::kF32 ? WeightFormat::kF32 : WeightFormat::kBF16;
  add(name, slot, dtype, shape, WeightPart::kEmbedding, format)
      .pieces.push_back({.tensor = index, .bytes = catalog_.tensor(index).bytes});
}

void WeightPlanner::add_linear(const std::string& base, LinearWeight& slot, int64_t n, int64_t k, WeightPart part) {
  add_stack({find_linear(catalog_, base, n, k)}, slot, 0, part);
}

void WeightPlanner::add_stack(const std::vector<StoredLinear>& parts, LinearWeight& slot, int64_t experts, WeightPart part) {
  const StoredLinear& first = parts.front();
  const bool is_row = first.format == WeightFormat::kFp8Row;
  int64_t rows = 0;
  int64_t scale_rows = 0;
  std::vector<WeightPiece> weights;
  std::vector<WeightPiece> scales;
  const auto append = [&](std::vector<WeightPiece>& pieces, size_t tensor) {
    const uint64_t begin = pieces.empty() ? 0 : pieces.back().target_begin + pieces.back().bytes;
    pieces.push_back({.tensor = tensor, .bytes = catalog_.tensor(tensor).bytes, .target_begin = begin});
  };
  for (const StoredLinear& stored : parts) {
    const auto scale_dtype = [&](const StoredLinear& s) { return s.scale ? catalog_.tensor(*s.scale).dtype : std::nullopt; };
    if (stored.format != first.format || scale_dtype(stored) != scale_dtype(first)) {
      throw Error(ErrorCode::kFormatError,
                  {.what = "tensor " + stored.name + " is stored unlike others that form one weight with it",
                   .where = catalog_.tensor(stored.weight).origin,
                   .expected = std::string(to_string(first.format)) + " as in " + first.name,
                   .got = std::string(to_string(stored.format))});
    }
    rows += stored.n;
    append(weights, stored.weight);
    if (!stored.scale) continue;
    scale_rows += stored.scale_rows(catalog_);
    append(scales, *stored.scale);
  }
  slot.format = first.format;
  const std::string obstacle = stacking_obstacle(catalog_, parts);
  const auto add_part = [&](Tensor& target, DType dtype, const Shape& shape, std::vector<WeightPiece> pieces) -> PlannedTensor& {
    PlannedTensor& planned = add(first.name, target, dtype, shape, part, first.format);
    planned.pieces = std::move(pieces);
    planned.is_scale = &target != &slot.weight;
    planned.unsupported = obstacle;
    return planned;
  };
  add_part(slot.weight, first.dtype(), stacked_shape(experts, rows, first.k), std::move(weights));
  if (!first.scale) return;
  const Shape matrix = stacked_shape(experts, scale_rows, first.scale_columns());
  const Shape row = experts == 0 ? Shape{scale_rows} : Shape{experts, scale_rows / experts};
  add_part(slot.scale, *catalog_.tensor(*first.scale).dtype, is_row ? row : matrix, std::move(scales));
  if (!first.global_scale) return;
  PlannedTensor& global =
      add_part(slot.global_scale, DType::kF32, {1}, {{.tensor = *first.global_scale, .bytes = sizeof(float)}});
  if (first.reciprocal_global_scale) global.conversion = Conversion::kReciprocal;
}

void WeightPlanner::add_fused(const std::string& name, LinearWeight& slot, int64_t experts, int64_t n, int64_t k,
                              WeightPart part) {
  const Shape shape{experts, n, k};
  const size_t index = catalog_.require(name, {DType::kF32, DType::kBF16}, shape);
  const DType dtype = *catalog_.tensor(index).dtype;
  slot.format = dtype == DType::kF32 ? WeightFormat::kF32 : WeightFormat::kBF16;
  add(name, slot.weight, dtype, shape, part, slot.format)
      .pieces.push_back({.tensor = index, .bytes = catalog_.tensor(index).bytes});
}

void WeightPlanner::add_rows(const StoredLinear& stored, const std::vector<RowRange>& rows, LinearWeight& slot, WeightPart part) {
  const size_t row_bytes = dtype_bytes(stored.dtype(), static_cast<size_t>(stored.k));
  std::vector<WeightPiece> pieces;
  int64_t count = 0;
  for (const RowRange& range : rows) {
    pieces.push_back({.tensor = stored.weight,
                      .source_begin = static_cast<uint64_t>(range.begin) * row_bytes,
                      .bytes = static_cast<uint64_t>(range.count) * row_bytes,
                      .target_begin = static_cast<uint64_t>(count) * row_bytes});
    count += range.count;
  }
  slot.format = stored.format;
  PlannedTensor& planned = add(stored.name, slot.weight, stored.dtype(), {count, stored.k}, part, stored.format);
  planned.pieces = std::move(pieces);
  if (stored.scale) planned.unsupported = "interleaved projections in a quantised format";
}

}  // namespace foretoken
