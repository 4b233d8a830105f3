#include "core/shape.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/error.h"

namespace foretoken {
namespace {

TEST(Shape, CountsElements) {
  const Shape shape{5, 4, 3};
  EXPECT_EQ(shape.rank(), 3U);
  EXPECT_EQ(shape[1], 4);
  EXPECT_EQ(shape.num_elements(), 60);
  EXPECT_EQ(shape.row_elements(), 12);
  EXPECT_EQ(Shape{}.num_elements(), 1);
  EXPECT_EQ(Shape{}.row_elements(), 1);
  EXPECT_EQ(Shape{7}.row_elements(), 1);
  EXPECT_EQ((Shape{0, 9}).num_elements(), 0);
}

TEST(Shape, ComparesAndPrints) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{3, 2}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{2, 3, 1}));
  EXPECT_EQ((Shape{5, 2048}).to_string(), "[5, 2048]");
  EXPECT_EQ(Shape{}.to_string(), "[]");
  EXPECT_EQ((Shape{5, 4}).with_rows(2), (Shape{2, 4}));
}

TEST(Shape, RefusesWhatIsNoShape) {
  EXPECT_THROW((Shape{1, 2, 3, 4, 5, 6}), Error);
  EXPECT_THROW((Shape{2, -1}), Error);
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max() / 2;
  EXPECT_THROW((void)(Shape{kHuge, 3}).num_elements(), Error);
  EXPECT_EQ((Shape{kHuge, 2}).num_elements(), kHuge * 2);
}

}  // namespace
}  // namespace foretoken
