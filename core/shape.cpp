#include "core/shape.h"

#include <algorithm>

#include "core/error.h"

namespace foretoken {

Shape::Shape(std::initializer_list<int64_t> extents) : Shape(std::span<const int64_t>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const int64_t> extents) : rank_(extents.size()) {
  if (extents.size() > kMaxRank) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "too many dimensions for a shape",
                                              .expected = "at most " + std::to_string(kMaxRank),
                                              .got = std::to_string(extents.size())});
  }
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    if (extents[axis] < 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  {.what = "negative extent in a shape", .expected = ">= 0", .got = std::to_string(extents[axis])});
    }
    extents_[axis] = extents[axis];
  }
}

int64_t Shape::num_elements() const {
  int64_t count = 1;
  for (int64_t extent : extents()) {
    if (__builtin_mul_overflow(count, extent, &count)) {
      throw Error(ErrorCode::kInvalidArgument, "the number of elements of shape " + to_string() + " does not fit 63 bits");
    }
  }
  return count;
}

int64_t Shape::row_elements() const {
  int64_t count = 1;
  for (size_t axis = 1; axis < rank_; ++axis) count *= extents_[axis];
  return count;
}

Shape Shape::with_rows(int64_t rows) const {
  Shape shape = *this;
  shape.extents_[0] = rows;
  return shape;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (size_t axis = 0; axis < rank_; ++axis) text += (axis == 0 ? "" : ", ") + std::to_string(extents_[axis]);
  return text + "]";
}

bool operator==(const Shape& a, const Shape& b) { return std::ranges::equal(a.extents(), b.extents()); }

}  // namespace foretoken
