#include "models/weight_map_linear.h"

#include "core/error.h"

namespace foretoken {
namespace {

constexpr int64_t kBlock = 128;  // FP8 block scales
constexpr int64_t kGroup = 16;   // NVFP4 group scales

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Packings that this library does not read, told apart from a weight that is simply missing.
void refuse_foreign_packing(const WeightCatalog& catalog, const std::string& base) {
  for (const char* suffix : {".qweight", ".weight_packed"}) {
    const std::optional<size_t> found = catalog.source().find(base + suffix);
    if (!found || catalog.tensor(*found).dtype == DType::kU8) continue;
    throw Error(ErrorCode::kUnsupported, {.what = "tensor " + base + suffix + " is packed in a way that is not supported",
                                          .where = catalog.tensor(*found).origin,
                                          .expected = "a weight in F32, BF16, FP8 or NVFP4",
                                          .got = describe(catalog.tensor(*found))});
  }
}

[[noreturn]] void throw_no_scale(const WeightCatalog& catalog, size_t weight, const std::string& expected) {
  const SourceTensor& tensor = catalog.tensor(weight);
  throw Error(ErrorCode::kFormatError, {.what = "quantised tensor " + tensor.name + " has no scale",
                                        .where = tensor.origin,
                                        .expected = expected,
                                        .got = describe(tensor) + " alone"});
}

void find_fp8_scale(WeightCatalog& catalog, const std::string& base, StoredLinear& stored) {
  const Shape block{ceil_div(stored.n, kBlock), ceil_div(stored.k, kBlock)};
  if (const auto scale = catalog.take(base + ".weight_scale_inv")) {
    catalog.check(*scale, {DType::kF32, DType::kBF16}, {block});
    stored.scale = scale;
    stored.format = WeightFormat::kFp8Block;
    return;
  }
  const auto scale = catalog.take(base + ".weight_scale");
  if (!scale) throw_no_scale(catalog, stored.weight, base + ".weight_scale_inv or " + base + ".weight_scale");
  catalog.check(*scale, {DType::kF32, DType::kBF16}, {block, {stored.n, 1}, {stored.n}, {1}, {1, 1}, {}});
  stored.scale = scale;
  // Some exporters give block scales this name; a grid of one block is a scale of the whole tensor, either way.
  const Shape& shape = catalog.tensor(*scale).shape;
  const bool is_row = shape.rank() < 2 || shape == Shape({stored.n, 1}) || shape == Shape({1, 1});
  stored.format = is_row ? WeightFormat::kFp8Row : WeightFormat::kFp8Block;
}

void find_nvfp4_scales(WeightCatalog& catalog, const std::string& base, bool packed, StoredLinear& stored) {
  const std::string global_name = base + (packed ? ".weight_global_scale" : ".weight_scale_2");
  const auto scale = catalog.take(base + ".weight_scale");
  const auto global_scale = catalog.take(global_name);
  if (!scale || !global_scale) throw_no_scale(catalog, stored.weight, base + ".weight_scale and " + global_name);
  catalog.check(*scale, {DType::kE4M3}, {{stored.n, stored.k / kGroup}});
  catalog.check(*global_scale, {DType::kF32}, {{}, {1}});
  stored.scale = scale;
  stored.global_scale = global_scale;
  stored.reciprocal_global_scale = packed;
  stored.format = WeightFormat::kNvfp4;
}

}  // namespace

DType StoredLinear::dtype() const {
  switch (format) {
    case WeightFormat::kF32: return DType::kF32;
    case WeightFormat::kBF16: return DType::kBF16;
    case WeightFormat::kFp8Row:
    case WeightFormat::kFp8Block: return DType::kE4M3;
    case WeightFormat::kNvfp4: return DType::kE2M1;
  }
  return DType::kBF16;
}

int64_t StoredLinear::scale_rows(const WeightCatalog& catalog) const {
  return scale_columns() == 1 && format == WeightFormat::kFp8Row ? catalog.tensor(*scale).shape.num_elements()
                                                                 : catalog.tensor(*scale).shape[0];
}

int64_t StoredLinear::scale_columns() const {
  if (format == WeightFormat::kFp8Block) return ceil_div(k, kBlock);
  return format == WeightFormat::kNvfp4 ? k / kGroup : 1;
}

StoredLinear find_linear(WeightCatalog& catalog, const std::string& base, int64_t n, int64_t k) {
  const bool packed = !catalog.contains(base + ".weight") && catalog.contains(base + ".weight_packed");
  if (!catalog.contains(base + ".weight")) refuse_foreign_packing(catalog, base);
  StoredLinear stored;
  stored.name = base + (packed ? ".weight_packed" : ".weight");
  stored.n = n;
  stored.k = k;
  stored.weight = catalog.require(stored.name, "a weight of shape " + Shape{n, k}.to_string());
  const std::optional<DType> dtype = catalog.tensor(stored.weight).dtype;
  if (dtype == DType::kU8 && k % kGroup == 0) {
    catalog.check(stored.weight, {DType::kU8}, {{n, k / 2}});
    find_nvfp4_scales(catalog, base, packed, stored);
  } else if (dtype == DType::kE4M3) {
    catalog.check(stored.weight, {DType::kE4M3}, {{n, k}});
    find_fp8_scale(catalog, base, stored);
  } else {
    catalog.check(stored.weight, {DType::kF32, DType::kBF16}, {{n, k}});
    stored.format = dtype == DType::kF32 ? WeightFormat::kF32 : WeightFormat::kBF16;
    return stored;
  }
  // Scales of quantised activations: this library computes with unquantised ones.
  catalog.take(base + ".input_scale");
  catalog.take(base + ".input_global_scale");
  return stored;
}

}  // namespace foretoken
