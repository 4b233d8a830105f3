#include "core/tensor.h"

#include <gtest/gtest.h>

#include "backends/adopted_memory.h"
#include "backends/cpu/reference/host_buffer.h"
#include "core/error.h"

namespace foretoken {
namespace {

class TensorTest : public testing::Test {
 protected:
  BufferView all() { return {.buffer = &buffer_, .offset = 0, .bytes = buffer_.bytes()}; }
  Tensor matrix() { return Tensor(all(), DType::kF32, {6, 10}); }  // [6, 10], contiguous
  size_t element_offset(const Tensor& tensor) { return (tensor.address() - buffer_.address()) / 4; }

  HostBuffer buffer_{1024};
};

TEST_F(TensorTest, SeesTheStartOfItsView) {
  const Tensor tensor = matrix();
  EXPECT_EQ(tensor.bytes(), 240U);
  EXPECT_EQ(tensor.view().bytes, 240U);
  EXPECT_EQ(tensor.row_stride(), 10);
  EXPECT_TRUE(tensor.is_contiguous());
  EXPECT_FALSE(tensor.is_absent());
  EXPECT_THROW(Tensor(all(), DType::kF32, {257}), Error);
  EXPECT_THROW(Tensor(all().slice(0, 100), DType::kF32, {26}), Error);
  EXPECT_EQ(Tensor(all(), DType::kE2M1, {3, 5}).bytes(), 8U);
}

TEST_F(TensorTest, IsAbsentByDefault) {
  const Tensor tensor;
  EXPECT_TRUE(tensor.is_absent());
  EXPECT_FALSE(static_cast<bool>(tensor));
  EXPECT_EQ(tensor.address(), 0U);
  EXPECT_EQ(tensor.bytes(), 0U);
}

TEST_F(TensorTest, TakesRows) {
  const Tensor rows = matrix().rows(2, 3);
  EXPECT_EQ(rows.shape(), (Shape{3, 10}));
  EXPECT_EQ(element_offset(rows), 20U);
  EXPECT_TRUE(rows.is_contiguous());
  EXPECT_EQ(matrix().rows(6, 0).bytes(), 0U);
  EXPECT_THROW((void)matrix().rows(4, 3), Error);
  EXPECT_THROW((void)matrix().rows(-1, 1), Error);
  EXPECT_THROW((void)matrix().rows(0, -1), Error);
}

TEST_F(TensorTest, TakesColumnsAsStridedRows) {
  const Tensor columns = matrix().columns(3, 4);
  EXPECT_EQ(columns.shape(), (Shape{6, 4}));
  EXPECT_EQ(columns.row_stride(), 10);
  EXPECT_EQ(element_offset(columns), 3U);
  EXPECT_FALSE(columns.is_contiguous());
  EXPECT_EQ(columns.bytes(), 96U);
  EXPECT_EQ(columns.view().bytes, (5 * 10 + 4) * 4U) << "from the first element to the last, gaps included";
  EXPECT_TRUE(columns.rows(2, 1).is_contiguous()) << "one row has no gaps";
  EXPECT_EQ(element_offset(columns.rows(2, 2)), 23U);
  EXPECT_THROW((void)matrix().columns(8, 3), Error);
  EXPECT_THROW((void)matrix().reshape({6, 5, 2}).columns(0, 1), Error);
}

TEST_F(TensorTest, Reshapes) {
  EXPECT_EQ(matrix().reshape({3, 20}).row_stride(), 20);
  EXPECT_EQ(matrix().reshape({60}).shape(), (Shape{60}));
  EXPECT_THROW((void)matrix().reshape({61}), Error);
  const Tensor columns = matrix().columns(2, 6);
  const Tensor heads = columns.reshape({6, 2, 3});
  EXPECT_EQ(heads.row_stride(), 10) << "rows keep their distance";
  EXPECT_FALSE(heads.is_contiguous());
  EXPECT_THROW((void)columns.reshape({12, 3}), Error) << "strided rows cannot be split";
}

TEST_F(TensorTest, DropsItsFirstAxis) {
  const Tensor slice = Tensor(all(), DType::kF32, {2, 3, 5}).at(1);
  EXPECT_EQ(slice.shape(), (Shape{3, 5}));
  EXPECT_EQ(slice.row_stride(), 5);
  EXPECT_EQ(element_offset(slice), 15U);
  EXPECT_EQ(matrix().columns(2, 6).at(4).shape(), Shape{6});
  EXPECT_EQ(element_offset(matrix().columns(2, 6).at(4)), 42U);
  EXPECT_THROW((void)matrix().at(6), Error);
}

TEST_F(TensorTest, KnowsWhereItsMemoryLiesForOthers) {
  const NativeMemory part = all().slice(96, 32).native();
  EXPECT_EQ(part.handle, buffer_.address());
  EXPECT_EQ(part.offset, 96U);
  EXPECT_EQ(part.bytes, 32U);
  EXPECT_EQ(BufferView{}.native().handle, 0U);
}

TEST_F(TensorTest, KnowsOverlaps) {
  HostBuffer other(64);
  const BufferView left = all().slice(0, 100);
  EXPECT_TRUE(left.overlaps(all().slice(99, 1)));
  EXPECT_FALSE(left.overlaps(all().slice(100, 10)));
  EXPECT_TRUE(all().overlaps(left));
  EXPECT_FALSE(left.overlaps({.buffer = &other, .offset = 0, .bytes = 64}));
  AdoptedMemory same(buffer_.address() + 96, 8);
  EXPECT_TRUE(left.overlaps({.buffer = &same, .offset = 0, .bytes = 8}));
  EXPECT_FALSE(left.overlaps({.buffer = &same, .offset = 4, .bytes = 4}));
  EXPECT_FALSE(BufferView{}.overlaps(BufferView{}));
  EXPECT_THROW((void)all().slice(1000, 25), Error);
  EXPECT_THROW((void)all().slice(1025, 0), Error);
  EXPECT_EQ(all().slice(1024, 0).bytes, 0U);
}

}  // namespace
}  // namespace foretoken
