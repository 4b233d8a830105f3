// The extents of a tensor, at most kMaxRank of them, stored in place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace foretoken {

class Shape {
 public:
  static constexpr size_t kMaxRank = 5;

  Shape() = default;
  /// Throws InvalidArgument on more than kMaxRank extents or a negative one.
  Shape(std::initializer_list<int64_t> extents);
  explicit Shape(std::span<const int64_t> extents);

  [[nodiscard]] size_t rank() const { return rank_; }
  [[nodiscard]] int64_t operator[](size_t axis) const { return extents_[axis]; }
  [[nodiscard]] std::span<const int64_t> extents() const { return {extents_.data(), rank_}; }
  /// Product of all extents; 1 for rank 0. Throws InvalidArgument when it does not fit int64.
  [[nodiscard]] int64_t num_elements() const;
  /// Product of all extents but the first; 1 for rank 0 and 1.
  [[nodiscard]] int64_t row_elements() const;
  /// The same shape with another first extent.
  [[nodiscard]] Shape with_rows(int64_t rows) const;
  /// "[5, 2048]".
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<int64_t, kMaxRank> extents_{};
  size_t rank_ = 0;
};

}  // namespace foretoken
