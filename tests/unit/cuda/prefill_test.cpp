// Which implementation prefill gets, and the workspace that goes with it. No test here needs a device or cuBLASLt.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "backends/cuda/cublas_lt.h"
#include "backends/gpu/host/backend.h"
#include "backends/gpu/host/kernel_module.h"
#include "backends/ops.h"
#include "core/ops/linear_group.h"

namespace foretoken::cuda {
namespace {

class CudaPrefill : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_EQ(setenv("FORETOKEN_CUDA_CUBLASLT", "0", 1), 0); }

  template <class Op>
  [[nodiscard]] std::string chosen(const Op& op) const {
    return table_.choose(Op::schema().name(), &op).name;
  }

  RuntimeKernelModule module_;
  OpTable table_ = make_op_table(module_);
};

LinearWeight weight(WeightFormat format, const Shape& shape) {
  LinearWeight w;
  w.format = format;
  w.weight = Tensor::shape_only(code_dtype(format), shape);
  if (format == WeightFormat::kFp8Block) w.scale = Tensor::shape_only(DType::kF32, scale_shape(format, shape));
  return w;
}

Linear linear(int64_t rows, const LinearWeight& w, DType activations = DType::kBF16) {
  return {.x = Tensor::shape_only(activations, {rows, w.in_features()}),
          .w = w,
          .out = Tensor::shape_only(DType::kF32, {rows, w.out_features()}),
          .workspace = {},
          .precision = LinearPrecision::kBF16};
}

TEST_F(CudaPrefill, TheLibraryCanBeTurnedOff) {
  EXPECT_FALSE(CublasLt::availability());
  EXPECT_NE(CublasLt::availability().reason().find("FORETOKEN_CUDA_CUBLASLT"), std::string::npos);
  EXPECT_FALSE(CublasLt(0).plan(
      {.num_rows = 64, .out_features = 64, .in_features = 64, .x_stride = 64, .out_stride = 64, .out_is_bf16 = false}));
}

TEST_F(CudaPrefill, ManyRowsGoToTensorCores) {
  const LinearWeight w = weight(WeightFormat::kBF16, {264, 640});
  EXPECT_EQ(chosen(linear(300, w)), "mma");
  EXPECT_EQ(chosen(linear(300, w, DType::kF32)), "mma");
  EXPECT_EQ(chosen(linear(300, weight(WeightFormat::kFp8Block, {264, 640}))), "mma");
  Linear exact = linear(300, w);
  exact.precision = LinearPrecision::kExact;
  EXPECT_NE(chosen(exact), "mma");
  EXPECT_NE(chosen(linear(15, w)), "mma");
  EXPECT_NE(chosen(linear(300, weight(WeightFormat::kBF16, {264, 100}))), "mma") << "rows that are no multiple of 64";
  EXPECT_NE(chosen(linear(300, weight(WeightFormat::kF32, {264, 640}))), "mma") << "weights that would be rounded";
}

TEST_F(CudaPrefill, GroupsFollowTheirProjections) {
  LinearGroup group;
  group.precision = LinearPrecision::kBF16;
  group.x = Tensor::shape_only(DType::kBF16, {300, 640});
  group.w = {weight(WeightFormat::kBF16, {264, 640}), weight(WeightFormat::kBF16, {5, 640})};
  group.out = {Tensor::shape_only(DType::kF32, {300, 264}), Tensor::shape_only(DType::kF32, {300, 5})};
  EXPECT_EQ(chosen(group), "prefill");
  group.w[1] = weight(WeightFormat::kF32, {5, 640});
  EXPECT_NE(chosen(group), "prefill");
}

TEST_F(CudaPrefill, WorkspaceHoldsWhatIsConverted) {
  const LinearWeight plain = weight(WeightFormat::kBF16, {264, 640});
  const LinearWeight coded = weight(WeightFormat::kFp8Block, {264, 640});
  EXPECT_EQ(ops::workspace_bytes(table_, linear(300, plain)), 0U);
  EXPECT_GE(ops::workspace_bytes(table_, linear(300, plain, DType::kF32)), 300U * 640 * 2);
  EXPECT_GE(ops::workspace_bytes(table_, linear(300, coded)), 264U * 640 * 2);
  size_t fewer = 0;
  for (const int64_t rows : {32, 33, 128, 1000}) {
    const size_t bytes = ops::workspace_bytes(table_, linear(rows, coded, DType::kF32));
    EXPECT_GE(bytes, fewer) << rows << " rows need less than fewer rows do";
    fewer = bytes;
  }
}

TEST_F(CudaPrefill, AttentionFollowsThePrecision) {
  const Shape cache{8, 16, 2, 256};
  GatedAttention op;
  op.q = Tensor::shape_only(DType::kF32, {64, 8, 256});
  op.q_gate = Tensor::shape_only(DType::kF32, {64, 8, 512});
  op.k_cache = op.v_cache = Tensor::shape_only(DType::kBF16, cache);
  op.out = Tensor::shape_only(DType::kBF16, {64, 8, 256});
  op.max_seq_len = 128;
  EXPECT_NE(chosen(op), "mma-d256");
  op.precision = LinearPrecision::kBF16;
  EXPECT_EQ(chosen(op), "mma-d256");
  op.q = Tensor::shape_only(DType::kF32, {31, 8, 256});
  EXPECT_NE(chosen(op), "mma-d256");
}

TEST_F(CudaPrefill, ExpertsFollowThePrecision) {
  MoeExpertsUp op;
  op.x = Tensor::shape_only(DType::kBF16, {64, 128});
  op.gate_up = weight(WeightFormat::kBF16, {16, 128, 128});
  op.out = Tensor::shape_only(DType::kBF16, {64, 4, 64});
  EXPECT_NE(chosen(op), "mma");
  op.precision = LinearPrecision::kBF16;
  EXPECT_EQ(chosen(op), "mma");
  op.x = Tensor::shape_only(DType::kF32, {64, 128});
  EXPECT_NE(chosen(op), "mma");
}

}  // namespace
}  // namespace foretoken::cuda
