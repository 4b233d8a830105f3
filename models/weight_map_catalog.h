// The tensors of a source by name, and which of them a weight map has taken. For the sources of this folder, not for callers.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/weight_source.h"

namespace foretoken {

class WeightCatalog {
 public:
  /// `quant_method` is what the config says: only for the message about a weight that is missing.
  WeightCatalog(const WeightSource& source, std::string quant_method);

  [[nodiscard]] const WeightSource& source() const { return source_; }
  [[nodiscard]] const SourceTensor& tensor(size_t index) const { return source_.tensors()[index]; }
  [[nodiscard]] bool contains(std::string_view name) const { return by_name_.contains(name); }
  [[nodiscard]] bool has_prefix(std::string_view prefix) const;
  /// Marks a tensor as taken; nothing when it is not there.
  std::optional<size_t> take(std::string_view name);
  /// The same, but a tensor that is not there is a FormatError; `expected` says what it should have been.
  size_t require(std::string_view name, const std::string& expected);
  /// Takes `name` and checks it. Throws FormatError with the allowed dtypes and the shape.
  size_t require(std::string_view name, std::initializer_list<DType> dtypes, const Shape& shape);
  /// Throws FormatError unless the tensor has one of `dtypes` and one of `shapes`.
  void check(size_t index, std::initializer_list<DType> dtypes, const std::vector<Shape>& shapes) const;
  /// One more than the largest N of the names `prefix`N.*; 0 when there is none. Throws FormatError for an N that is no number.
  [[nodiscard]] size_t count_indices(std::string_view prefix) const;
  /// Marks every tensor under `prefix` as taken.
  void take_all(std::string_view prefix);
  /// Throws FormatError for the first tensor that nobody took, those of vision towers apart.
  void check_nothing_left() const;

 private:
  const WeightSource& source_;
  std::string quant_method_;
  std::map<std::string, size_t, std::less<>> by_name_;
  std::vector<bool> taken_;
};

/// "BF16 [5, 7]".
[[nodiscard]] std::string describe(const SourceTensor& tensor);

}  // namespace foretoken
