// What an operator says when its operands do not fit.
#include "core/op_schema.h"

#include <gtest/gtest.h>

#include "backends/cpu/reference/host_buffer.h"
#include "backends/ops.h"
#include "core/error.h"

namespace foretoken {
namespace {

class SchemaTest : public testing::Test {
 protected:
  Tensor tensor(DType dtype, const Shape& shape) {
    return Tensor({.buffer = &buffer_, .offset = 0, .bytes = buffer_.bytes()}, dtype, shape);
  }
  Tensor f32(const Shape& shape) { return tensor(DType::kF32, shape); }
  Tensor i32(const Shape& shape) { return tensor(DType::kI32, shape); }

  /// The message of the InvalidArgument that checking `op` throws; empty when it passes.
  template <class Op>
  std::string message_of(const Op& op) {
    try {
      ops::check(op);
      return {};
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
  }

  HostBuffer buffer_{1 << 20};
};

TEST_F(SchemaTest, PassesWhatFits) {
  EXPECT_EQ(message_of(RmsNorm{.x = f32({3, 8}), .weight = f32({8}), .out = f32({3, 8})}), "");
  const Tensor wide = f32({3, 20});
  EXPECT_EQ(message_of(RmsNorm{.x = wide.columns(0, 8), .weight = f32({8}), .out = wide.columns(8, 8)}), "");
}

TEST_F(SchemaTest, NamesBothSidesOfAMismatch) {
  EXPECT_EQ(message_of(RmsNorm{.x = f32({3, 5120}), .weight = f32({4096}), .out = f32({3, 5120})}),
            "rms_norm: weight has H=4096, x has H=5120");
  EXPECT_EQ(message_of(RmsNorm{.x = f32({3, 8}), .weight = f32({8}), .out = f32({2, 8})}), "rms_norm: out has T=2, x has T=3");
}

TEST_F(SchemaTest, NamesAMissingOperand) {
  EXPECT_EQ(message_of(RmsNorm{.x = f32({3, 8}), .weight = {}, .out = f32({3, 8})}), "rms_norm: weight is missing");
}

TEST_F(SchemaTest, NamesAWrongDtype) {
  EXPECT_EQ(message_of(RmsNorm{.x = f32({3, 8}), .weight = tensor(DType::kBF16, {8}), .out = f32({3, 8})}),
            "rms_norm: weight is BF16, expected F32");
  EXPECT_EQ(message_of(RmsNorm{.x = i32({3, 8}), .weight = f32({8}), .out = f32({3, 8})}),
            "rms_norm: x is I32, expected F32 or BF16");
}

TEST_F(SchemaTest, NamesAWrongRank) {
  EXPECT_EQ(message_of(RmsNorm{.x = f32({24}), .weight = f32({8}), .out = f32({3, 8})}),
            "rms_norm: x has shape [24], expected 2 dimensions");
}

TEST_F(SchemaTest, NamesStridedRowsWhereTheyMayNotBe) {
  EXPECT_EQ(message_of(RopeTable{.positions = i32({3}), .cos_sin = f32({3, 20}).columns(0, 8)}),
            "rope_table: cos_sin must be contiguous, its rows are strided");
}

TEST_F(SchemaTest, EvaluatesSumsAndProducts) {
  AcceptDrafts accept{.token_ids = i32({6}), .target_token_ids = i32({6}), .query_start_loc = i32({2}), .num_accepted = i32({2})};
  EXPECT_EQ(message_of(accept), "accept_drafts: query_start_loc has 2 in dimension 0, expected B+1=3");
  accept.query_start_loc = i32({3});
  EXPECT_EQ(message_of(accept), "");

  GatedAttention attention;
  attention.q = f32({3, 4, 16});
  attention.q_gate = f32({3, 4, 16});
  attention.k_cache = f32({5, 8, 2, 16});
  attention.v_cache = f32({5, 8, 2, 16});
  attention.block_table = i32({1, 4});
  attention.seq_lens = i32({1});
  attention.query_start_loc = i32({2});
  attention.out = f32({3, 4, 16});
  attention.max_seq_len = 32;
  EXPECT_EQ(message_of(attention), "gated_attention: q_gate has 16 in dimension 2, expected 2*D=32");
  attention.q_gate = f32({3, 4, 32});
  EXPECT_EQ(message_of(attention), "");
  attention.max_seq_len = 33;
  EXPECT_EQ(message_of(attention),
            "gated_attention: max_seq_len (expected 1 .. 32 (what a row of the block table reaches), got 33)");
  attention.max_seq_len = 32;
  attention.k_cache = attention.v_cache = f32({5, 8, 3, 16});
  EXPECT_EQ(message_of(attention), "gated_attention: query heads (expected a multiple of the 3 key heads, got 4)");
}

TEST_F(SchemaTest, ChecksProductsOfExperts) {
  MoeRoute route{.logits = f32({3, 8}),
                 .topk_ids = i32({3, 2}),
                 .topk_weights = f32({3, 2}),
                 .expert_offsets = i32({9}),
                 .expert_pairs = i32({5})};
  EXPECT_EQ(message_of(route), "moe_route: expert_pairs has 5 in dimension 0, expected T*k=6");
  route.expert_pairs = i32({6});
  route.expert_offsets = i32({8});
  EXPECT_EQ(message_of(route), "moe_route: expert_offsets has 8 in dimension 0, expected E+1=9");
}

TEST_F(SchemaTest, ChecksWeightFormats) {
  Linear linear;
  linear.x = f32({3, 256});
  linear.out = f32({3, 200});
  linear.w = {.weight = f32({200, 256}), .scale = {}, .global_scale = {}, .format = WeightFormat::kBF16};
  EXPECT_EQ(message_of(linear), "linear: weight: bf16 [200, 256] must hold BF16, it is F32 [200, 256]");
  linear.w.weight = tensor(DType::kE4M3, {200, 256});
  linear.w.format = WeightFormat::kFp8Block;
  EXPECT_EQ(message_of(linear), "linear: weight: fp8-block [200, 256] needs a scale [2, 2], it is absent");
  linear.w.scale = f32({2, 3});
  EXPECT_EQ(message_of(linear), "linear: weight: fp8-block [200, 256] needs a scale [2, 2], it is F32 [2, 3]");
  linear.w.scale = f32({2, 2});
  EXPECT_EQ(message_of(linear), "");
  linear.w.format = WeightFormat::kFp8Row;
  EXPECT_EQ(message_of(linear), "linear: weight: fp8-row [200, 256] needs a scale [200], it is F32 [2, 2]");
  linear.w.scale = f32({1});
  EXPECT_EQ(message_of(linear), "") << "one scale for the whole tensor";
  linear.w.weight = tensor(DType::kE2M1, {200, 256});
  linear.w.format = WeightFormat::kNvfp4;
  linear.w.scale = tensor(DType::kE4M3, {200, 16});
  EXPECT_EQ(message_of(linear),
            "linear: weight: nvfp4 [200, 256] needs an F32 global scale for equal groups of rows, it is absent");
  linear.w.global_scale = f32({1});
  EXPECT_EQ(message_of(linear), "");
  linear.w = {.weight = f32({200, 256}), .scale = f32({200}), .global_scale = {}, .format = WeightFormat::kF32};
  EXPECT_EQ(message_of(linear), "linear: weight: f32 [200, 256] takes no such scales");
}

TEST_F(SchemaTest, ChecksRotaryDimensions) {
  EXPECT_NE(message_of(Rope{.x = f32({3, 2, 16}), .cos_sin = f32({3, 18})}), "") << "more than the head has";
  EXPECT_NE(message_of(Rope{.x = f32({3, 2, 16}), .cos_sin = f32({3, 7})}), "") << "pairs need an even number";
  EXPECT_EQ(message_of(Rope{.x = f32({3, 2, 16}), .cos_sin = f32({3, 16})}), "");
}

TEST_F(SchemaTest, AnFp8CacheNeedsItsScalesAndNoOtherTakesThem) {
  QkNormRopeCache write;
  write.k = write.v = f32({3, 2, 16});
  write.k_norm = f32({16});
  write.cos_sin = f32({3, 8});
  write.slot_mapping = tensor(DType::kI64, {3});
  write.k_cache = write.v_cache = tensor(DType::kE4M3, {4, 16, 2, 16});
  EXPECT_EQ(message_of(write), "qk_norm_rope_cache: k_scale is missing, a cache of F8_E4M3 needs it");
  write.k_scale = f32({1});
  EXPECT_EQ(message_of(write), "qk_norm_rope_cache: v_scale is missing, a cache of F8_E4M3 needs it");
  write.v_scale = f32({2});
  EXPECT_EQ(message_of(write), "qk_norm_rope_cache: v_scale has 2 in dimension 0, expected 1=1");
  write.v_scale = f32({1});
  EXPECT_EQ(message_of(write), "");
  write.v_cache = f32({4, 16, 2, 16});
  EXPECT_EQ(message_of(write), "qk_norm_rope_cache: k_cache is F8_E4M3, v_cache is F32, expected one dtype");
  write.k_cache = write.v_cache;
  EXPECT_EQ(message_of(write), "qk_norm_rope_cache: k_scale given, a cache of F32 takes none");

  GatedAttention read;
  read.q = read.out = f32({1, 2, 16});
  read.q_gate = f32({1, 2, 32});
  read.k_cache = read.v_cache = tensor(DType::kE4M3, {4, 16, 2, 16});
  read.k_scale = f32({1});
  read.block_table = i32({1, 4});
  read.seq_lens = i32({1});
  read.query_start_loc = i32({2});
  read.max_seq_len = 64;
  EXPECT_EQ(message_of(read), "gated_attention: v_scale is missing, a cache of F8_E4M3 needs it");
  read.v_scale = f32({1});
  EXPECT_EQ(message_of(read), "");
}

TEST_F(SchemaTest, OptionalOperandsGoTogether) {
  CausalConv1dSilu conv;
  conv.x = f32({4, 8});
  conv.weight = f32({8, 4});
  conv.query_start_loc = i32({2});
  conv.state_slots = i32({1});
  conv.conv_state = f32({3, 8, 3});
  conv.out = f32({4, 8});
  EXPECT_EQ(message_of(conv), "");
  conv.update = StateUpdate::kRecord;
  EXPECT_EQ(message_of(conv), "causal_conv1d_silu: recording needs conv_record");
  conv.update = StateUpdate::kInPlace;
  conv.num_commit = i32({1});
  EXPECT_EQ(message_of(conv), "causal_conv1d_silu: num_commit needs conv_record");
  conv.conv_record = f32({3, 4, 8});
  EXPECT_EQ(message_of(conv), "");
  conv.weight = f32({8, 5});
  EXPECT_EQ(message_of(conv), "causal_conv1d_silu: weight has 5 in dimension 1, expected 4=4");
}

TEST_F(SchemaTest, ListsWhatALaunchTouches) {
  const RmsNorm op{.x = f32({3, 20}).columns(0, 8), .weight = f32({8}), .out = f32({3, 8})};
  const std::vector<Access> accesses = accesses_of(op);
  ASSERT_EQ(accesses.size(), 3U);
  EXPECT_EQ(accesses[0].view.bytes, (2 * 20 + 8) * 4U);
  EXPECT_EQ(accesses[0].mode, AccessMode::kRead);
  EXPECT_EQ(accesses[2].mode, AccessMode::kWrite);
  Linear linear;
  linear.x = f32({1, 4});
  linear.w.weight = f32({2, 4});
  linear.out = f32({1, 2});
  EXPECT_EQ(accesses_of(linear).size(), 3U) << "absent operands are left out";
}

TEST_F(SchemaTest, HasATolerancePerDtype) {
  EXPECT_EQ(RmsNorm::schema().tolerance_for(DType::kF32).relative, 1e-5);
  EXPECT_NEAR(RmsNorm::schema().tolerance_for(DType::kBF16).nmse, 1e-4, 1e-12);
  EXPECT_EQ(RmsNorm::schema().tolerance_for(DType::kI32).relative, 0.0) << "integers are exact";
  EXPECT_EQ(QkNormRopeCache::schema().tolerance_for(DType::kE4M3).nmse, 2e-4) << "looser or tighter than the relative one";
  EXPECT_EQ(GatedAttention::schema().tolerance_for(DType::kE4M3).relative, 0.0) << "writes none";
  EXPECT_THROW((void)Argmax::schema().tolerance_for(DType::kF32), Error) << "declares none";
}

}  // namespace
}  // namespace foretoken
