#include "models/weight_map_linear.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "core/error.h"
#include "models/weight_map_foreign.h"

namespace foretoken {
namespace {

using Names = std::initializer_list<std::string_view>;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Finds the scales of one weight, or of `experts` weights in one tensor.
class LinearFinder {
 public:
  /// `experts` is 0 for a weight of its own.
  LinearFinder(WeightCatalog& catalog, std::string base, int64_t experts, int64_t n, int64_t k)
      : catalog_(catalog), base_(std::move(base)), experts_(experts), n_(n), k_(k) {}

  /// What the weight in tensor `name` is, as the first of the experts.
  StoredLinear find(const std::string& name);

 private:
  [[nodiscard]] bool is_fused() const { return experts_ > 0; }
  /// `matrix`, with the experts in front when they are fused.
  [[nodiscard]] Shape stacked(std::initializer_list<int64_t> matrix) const;
  /// Takes the first tensor there is of `base` + one of `suffixes`.
  std::optional<size_t> take(Names suffixes);
  void find_fp8_scale(StoredLinear& stored);
  void find_nvfp4_scales(StoredLinear& stored);
  [[noreturn]] void throw_no_scale(const StoredLinear& stored, const std::string& expected) const;

  WeightCatalog& catalog_;
  std::string base_;
  int64_t experts_;
  int64_t n_;
  int64_t k_;
};

Shape LinearFinder::stacked(std::initializer_list<int64_t> matrix) const {
  std::vector<int64_t> extents;
  if (is_fused()) extents.push_back(experts_);
  extents.insert(extents.end(), matrix);
  return Shape(extents);
}

std::optional<size_t> LinearFinder::take(Names suffixes) {
  for (const std::string_view suffix : suffixes) {
    if (const auto found = catalog_.take(base_ + std::string(suffix))) return found;
  }
  return std::nullopt;
}

void LinearFinder::throw_no_scale(const StoredLinear& stored, const std::string& expected) const {
  const SourceTensor& tensor = catalog_.tensor(stored.weight.tensor);
  throw Error(ErrorCode::kFormatError, {.what = "quantised tensor " + tensor.name + " has no scale",
                                        .where = tensor.origin,
                                        .expected = expected,
                                        .got = describe(tensor) + " alone"});
}

void LinearFinder::find_fp8_scale(StoredLinear& stored) {
  // Both names are met with each of the shapes, whatever "inverse" was to say: the value is code * scale.
  const auto scale = is_fused() ? take({"_scale_inv", "_weight_scale_inv", "_scale", "_weight_scale"})
                                : take({".weight_scale_inv", ".weight_scale"});
  const std::string stem = base_ + (is_fused() ? "" : ".weight");
  if (!scale) throw_no_scale(stored, stem + "_scale_inv or " + stem + "_scale");
  refuse_e8m0(catalog_, *scale, "MXFP8");
  const Shape block = stacked({ceil_div(n_, kFp8BlockExtent), ceil_div(k_, kFp8BlockExtent)});
  const std::vector<Shape> rows{stacked({n_, 1}), stacked({n_})};
  const std::vector<Shape> one_each{stacked({}), stacked({1}), stacked({1, 1})};
  const std::vector<Shape> one{{}, {1}, {1, 1}};
  std::vector<Shape> allowed{block};
  for (const auto* shapes : {&rows, &one_each, &one}) {
    for (const Shape& shape : *shapes) {
      if (std::ranges::find(allowed, shape) == allowed.end()) allowed.push_back(shape);
    }
  }
  catalog_.check(*scale, {DType::kF32, DType::kBF16}, allowed);
  const SourceTensor& tensor = catalog_.tensor(*scale);
  const auto is_one_of = [&](const std::vector<Shape>& shapes) {
    return std::ranges::find(shapes, tensor.shape) != shapes.end();
  };
  const bool is_single = is_one_of(one_each) || is_one_of(one);
  stored.scale = {.tensor = *scale};
  stored.scale_dtype = *tensor.dtype;
  // A grid of one block is one scale for all: then the name decides what it is called.
  const bool is_grid = tensor.shape == block && tensor.name.ends_with("_inv");
  stored.format = !is_grid && (is_single || is_one_of(rows)) ? WeightFormat::kFp8Row : WeightFormat::kFp8Block;
  if (stored.format == WeightFormat::kFp8Block) {
    stored.scale_extent = kFp8BlockExtent;
  } else {
    stored.scale_extent = is_single ? n_ : 1;
  }
}

void LinearFinder::find_nvfp4_scales(StoredLinear& stored) {
  const bool packed = stored.name.ends_with(".weight_packed");
  const auto scale = is_fused() ? take({"_scale", "_weight_scale"}) : take({".weight_scale"});
  if (scale) refuse_e8m0(catalog_, *scale, "MXFP4");
  if (k_ % kNvfp4Group != 0) {
    const SourceTensor& tensor = catalog_.tensor(stored.weight.tensor);
    throw Error(ErrorCode::kFormatError, {.what = "tensor " + tensor.name + " cannot be NVFP4: its rows are no whole groups",
                                          .where = tensor.origin,
                                          .expected = "a number of columns that 16 divides",
                                          .got = std::to_string(k_) + " columns"});
  }
  const std::string stem = base_ + (is_fused() ? "" : ".weight");
  const std::string global_name = stem + (packed ? "_global_scale" : "_scale_2");
  const auto global_scale = is_fused() ? take({"_scale_2", "_weight_scale_2"}) : catalog_.take(global_name);
  if (!scale || !global_scale) throw_no_scale(stored, stem + "_scale and " + global_name);
  catalog_.check(stored.weight.tensor, {DType::kU8}, {stacked({n_, k_ / 2})});
  catalog_.check(*scale, {DType::kE4M3}, {stacked({n_, k_ / kNvfp4Group})});
  std::vector<Shape> one{{}, {1}};
  if (is_fused()) one.insert(one.end(), {stacked({}), stacked({1}), stacked({1, 1})});
  catalog_.check(*global_scale, {DType::kF32}, one);
  stored.scale = {.tensor = *scale};
  stored.scale_dtype = DType::kE4M3;
  stored.global_scale = {.tensor = *global_scale};
  stored.reciprocal_global_scale = packed;
  stored.format = WeightFormat::kNvfp4;
}

StoredLinear LinearFinder::find(const std::string& name) {
  StoredLinear stored;
  stored.name = name;
  stored.n = n_;
  stored.k = k_;
  stored.weight.tensor = catalog_.require(name, "a weight of shape " + stacked({n_, k_}).to_string());
  const std::optional<DType> dtype = catalog_.tensor(stored.weight.tensor).dtype;
  if (dtype == DType::kU8) {
    find_nvfp4_scales(stored);
  } else if (dtype == DType::kE4M3) {
    catalog_.check(stored.weight.tensor, {DType::kE4M3}, {stacked({n_, k_})});
    find_fp8_scale(stored);
  } else {
    catalog_.check(stored.weight.tensor, {DType::kF32, DType::kBF16}, {stacked({n_, k_})});
    stored.format = dtype == DType::kF32 ? WeightFormat::kF32 : WeightFormat::kBF16;
  }
  // Scales of quantised activations: this library computes with unquantised ones.
  for (const char* suffix : {"input_scale", "input_global_scale", "activation_scale"}) {
    catalog_.take(base_ + (is_fused() ? "_" : ".") + suffix);
  }
  return stored;
}

}  // namespace

uint64_t StoredLinear::row_bytes() const { return dtype_bytes(code_dtype(format), static_cast<size_t>(k)); }

int64_t StoredLinear::scale_columns() const {
  if (format == WeightFormat::kFp8Block) return ceil_div(k, kFp8BlockExtent);
  return format == WeightFormat::kNvfp4 ? k / kNvfp4Group : 1;
}

uint64_t StoredLinear::scale_row_bytes() const { return dtype_bytes(scale_dtype, static_cast<size_t>(scale_columns())); }

std::string StoredLinear::describe() const {
  std::string text(to_string(format));
  if (!scale || format == WeightFormat::kNvfp4) return text + (reciprocal_global_scale ? " with a reciprocal global scale" : "");
  const bool is_one = format == WeightFormat::kFp8Row && scale_extent > 1;
  return text + (is_one ? " with one " : " with ") + std::string(to_string(scale_dtype)) + (is_one ? " scale" : " scales");
}

StoredLinear find_linear(WeightCatalog& catalog, const std::string& base, int64_t n, int64_t k) {
  refuse_foreign_method(catalog, base, n, k);
  const bool packed = !catalog.contains(base + ".weight") && catalog.contains(base + ".weight_packed");
  return LinearFinder(catalog, base, 0, n, k).find(base + (packed ? ".weight_packed" : ".weight"));
}

std::vector<StoredLinear> find_fused(WeightCatalog& catalog, const std::string& name, int64_t experts, int64_t n, int64_t k) {
  refuse_foreign_method(catalog, name, n, k);
  const StoredLinear first = LinearFinder(catalog, name, experts, n, k).find(name);
  std::vector<StoredLinear> all(static_cast<size_t>(experts), first);
  // Parts that hold something for each expert, with its bytes for one; a value for all experts stays where it is.
  const auto spread = [&](auto&& part_of, uint64_t bytes) {
    const SourceTensor& tensor = catalog.tensor(part_of(all.front()).tensor);
    if (tensor.bytes != bytes * static_cast<uint64_t>(experts)) return;
    for (size_t e = 0; e < all.size(); ++e) part_of(all[e]).begin = e * bytes;
  };
  const auto scale_rows = static_cast<uint64_t>(ceil_div(n, first.scale_extent));
  spread([](StoredLinear& s) -> StoredBytes& { return s.weight; }, static_cast<uint64_t>(n) * first.row_bytes());
  if (first.scale) spread([](StoredLinear& s) -> StoredBytes& { return *s.scale; }, scale_rows* first.scale_row_bytes());
  if (first.global_scale) spread([](StoredLinear& s) -> StoredBytes& { return *s.global_scale; }, sizeof(float));
  return all;
}

}  // namespace foretoken
