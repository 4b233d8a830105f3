#include "models/weight_map_planner.h"

#include "core/error.h"
#include "models/weight_map_assembly.h"

namespace foretoken {
namespace {

[[noreturn]] void throw_unlike(const WeightCatalog& catalog, const StoredLinear& stored, const StoredLinear& first,
                               const char* what) {
  throw Error(ErrorCode::kFormatError, {.what = "tensor " + stored.name + what,
                                        .where = catalog.tensor(stored.weight.tensor).origin,
                                        .expected = first.describe() + " as in " + first.name,
                                        .got = stored.describe()});
}

bool alike(const StoredLinear& a, const StoredLinear& b) {
  return a.format == b.format && a.scale.has_value() == b.scale.has_value() && a.scale_dtype == b.scale_dtype &&
         a.reciprocal_global_scale == b.reciprocal_global_scale;
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

void WeightPlanner::add_table(const std::string& base, Tensor& slot, const Shape& shape) {
  const StoredLinear stored = find_linear(catalog_, base, shape[0], shape[1]);
  const SourceTensor& tensor = catalog_.tensor(stored.weight.tensor);
  if (stored.scale) {
    throw Error(ErrorCode::kUnsupported, {.what = "tensor " + stored.name + " is a quantised embedding, which is not supported",
                                          .where = tensor.origin,
                                          .expected = "F32 or BF16",
                                          .got = stored.describe()});
  }
  PlannedTensor& planned = add(stored.name, slot, code_dtype(stored.format), shape, WeightPart::kEmbedding, stored.format);
  planned.pieces.push_back({.tensor = stored.weight.tensor, .bytes = tensor.bytes});
  planned.is_matrix = true;
}

void WeightPlanner::add_linear(const std::string& base, LinearWeight& slot, int64_t n, int64_t k, WeightPart part) {
  add_stack({find_linear(catalog_, base, n, k)}, slot, 0, 1, part);
}

void WeightPlanner::add_pair(const std::string& base, LinearWeight& slot, const std::string& other_base, LinearWeight& other_slot,
                             int64_t n, int64_t k, WeightPart part) {
  const StoredLinear stored = find_linear(catalog_, base, n, k);
  const StoredLinear other = find_linear(catalog_, other_base, n, k);
  if (other.format != stored.format || other.scale_extent != stored.scale_extent) {
    throw_unlike(catalog_, other, stored, " is stored unlike its partner");
  }
  add_stack({stored}, slot, 0, 1, part);
  add_stack({other}, other_slot, 0, 1, part);
}

void WeightPlanner::add_stack(const std::vector<StoredLinear>& parts, LinearWeight& slot, int64_t experts, int64_t row_groups,
                              WeightPart part) {
  std::vector<WeightSegment> segments;
  for (const StoredLinear& stored : parts) {
    if (!alike(stored, parts.front())) {
      throw_unlike(catalog_, stored, parts.front(), " is stored unlike others that form one weight with it");
    }
    segments.push_back({.stored = &stored, .begin = 0, .count = stored.n});
  }
  add_assembly(WeightAssembly(std::move(segments), experts, row_groups), slot, part);
}

void WeightPlanner::add_rows(const StoredLinear& stored, const std::vector<RowRange>& rows, LinearWeight& slot, WeightPart part) {
  std::vector<WeightSegment> segments;
  for (const RowRange& range : rows) segments.push_back({.stored = &stored, .begin = range.begin, .count = range.count});
  add_assembly(WeightAssembly(std::move(segments), 0, 1), slot, part);
}

void WeightPlanner::add_assembly(const WeightAssembly& assembly, LinearWeight& slot, WeightPart part) {
  const StoredLinear& first = assembly.first();
  slot.format = first.format;
  slot.block_rows = static_cast<int32_t>(assembly.block_rows());
  const auto add_part = [&](Tensor& target, DType dtype, const Shape& shape, std::vector<WeightPiece> pieces) -> PlannedTensor& {
    PlannedTensor& planned = add(first.name, target, dtype, shape, part, first.format);
    planned.pieces = std::move(pieces);
    planned.is_scale = &target != &slot.weight;
    planned.is_matrix = true;
    return planned;
  };
  add_part(slot.weight, code_dtype(first.format), assembly.shape(), assembly.weights());
  if (first.scale) add_part(slot.scale, first.scale_dtype, assembly.scales_shape(), assembly.scales());
  if (!first.global_scale) return;
  PlannedTensor& global = add_part(slot.global_scale, DType::kF32, assembly.global_scales_shape(), assembly.global_scales());
  if (first.reciprocal_global_scale) global.conversion = Conversion::kReciprocal;
}

void WeightPlanner::add_kv_scale(size_t tensor, Tensor& slot) {
  catalog_.check(tensor, {DType::kF32, DType::kBF16}, {{}, {1}});
  const SourceTensor& stored = catalog_.tensor(tensor);
  PlannedTensor& planned = add(stored.name, slot, DType::kF32, {1}, WeightPart::kKvScales, WeightFormat::kF32);
  planned.pieces.push_back({.tensor = tensor, .bytes = stored.bytes});
  planned.conversion = stored.dtype == DType::kBF16 ? Conversion::kBf16ToF32 : Conversion::kNone;
  planned.is_scale = true;
}

}  // namespace foretoken
