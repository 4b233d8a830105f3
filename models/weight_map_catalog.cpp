#include "models/weight_map_catalog.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/error.h"
#include "core/log.h"

namespace foretoken {
namespace {

constexpr std::array<std::string_view, 5> kVisionPrefixes{"model.visual.", "visual.", "model.vision_tower.", "vision_tower.",
                                                          "model.language_model.visual."};

bool is_vision(std::string_view name) {
  return std::ranges::any_of(kVisionPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::string describe_expected(std::initializer_list<DType> dtypes, const std::vector<Shape>& shapes) {
  std::string text;
  for (const DType dtype : dtypes) text.append(text.empty() ? "" : " or ").append(to_string(dtype));
  bool first = true;
  for (const Shape& shape : shapes) {
    text.append(first ? " " : " or ").append(shape.to_string());
    first = false;
  }
  return text;
}

}  // namespace

std::string describe(const SourceTensor& tensor) { return tensor.dtype_name + " " + tensor.shape.to_string(); }

WeightCatalog::WeightCatalog(const WeightSource& source, std::string quant_method)
    : source_(source),
      quant_method_(std::move(quant_method)),
      by_name_(index_by_name(source.tensors())),
      taken_(source.tensors().size(), false) {}

bool WeightCatalog::has_prefix(std::string_view prefix) const {
  const auto next = by_name_.lower_bound(prefix);
  return next != by_name_.end() && next->first.starts_with(prefix);
}

std::optional<size_t> WeightCatalog::take(std::string_view name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return std::nullopt;
  taken_[found->second] = true;
  return found->second;
}

size_t WeightCatalog::require(std::string_view name, const std::string& expected) {
  const std::optional<size_t> index = take(name);
  if (!index) {
    throw Error(ErrorCode::kFormatError,
                {.what = "tensor " + std::string(name) + " is missing",
                 .where = source_.name(),
                 .expected = expected,
                 .got = "no tensor of that name" +
                        (quant_method_.empty() ? "" : ", and a config that says `quant_method` " + quant_method_)});
  }
  return *index;
}

size_t WeightCatalog::require(std::string_view name, std::initializer_list<DType> dtypes, const Shape& shape) {
  const size_t index = require(name, describe_expected(dtypes, {shape}));
  check(index, dtypes, {shape});
  return index;
}

void WeightCatalog::check(size_t index, std::initializer_list<DType> dtypes, const std::vector<Shape>& shapes) const {
  const SourceTensor& found = tensor(index);
  const bool dtype_fits = found.dtype && std::ranges::find(dtypes, *found.dtype) != dtypes.end();
  const bool shape_fits = std::ranges::find(shapes, found.shape) != shapes.end();
  if (dtype_fits && shape_fits) return;
  throw Error(ErrorCode::kFormatError,
              {.what = "tensor " + found.name + (shape_fits ? " has the wrong dtype" : " has the wrong shape"),
               .where = found.origin,
               .expected = describe_expected(dtypes, shapes),
               .got = describe(found)});
}

size_t WeightCatalog::count_indices(std::string_view prefix) const {
  size_t count = 0;
  for (auto it = by_name_.lower_bound(prefix); it != by_name_.end() && it->first.starts_with(prefix); ++it) {
    const char* begin = it->first.data() + prefix.size();
    const char* end = it->first.data() + it->first.size();
    uint32_t number = 0;
    const auto [rest, error] = std::from_chars(begin, end, number);
    if (error != std::errc() || rest == end || *rest != '.') {
      throw Error(ErrorCode::kFormatError, {.what = "tensor " + it->first + " has no layer number",
                                            .where = tensor(it->second).origin,
                                            .expected = std::string(prefix) + "0. ..."});
    }
    count = std::max<size_t>(count, size_t{number} + 1);
  }
  return count;
}

void WeightCatalog::take_all(std::string_view prefix) {
  for (auto it = by_name_.lower_bound(prefix); it != by_name_.end() && it->first.starts_with(prefix); ++it)
    taken_[it->second] = true;
}

void WeightCatalog::check_nothing_left() const {
  for (size_t i = 0; i < taken_.size(); ++i) {
    if (taken_[i]) continue;
    const SourceTensor& left = tensor(i);
    if (is_vision(left.name)) {
      log().debug("{}: {} belongs to the vision tower and is not read", left.origin, left.name);
      continue;
    }
    const bool is_scale = left.name.find("_scale") != std::string::npos || left.name.ends_with("_zero_point");
    throw Error(ErrorCode::kFormatError,
                {.what = "tensor " + left.name + (is_scale ? " is a scale without a quantised weight" : " belongs to no layer"),
                 .where = left.origin,
                 .expected = is_scale ? "a weight in FP8 or NVFP4 beside it" : "tensors of the model of config.json only",
                 .got = describe(left)});
  }
}

}  // namespace foretoken
