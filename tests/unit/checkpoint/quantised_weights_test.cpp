// Quantised weights in device memory hold the values that their files say, however the files cut them.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <cstring>

#include "backends/cpu/reference/weight_access.h"
#include "tests/support/gated_device.h"
#include "tests/unit/checkpoint/loaded_weights.h"
#include "tests/unit/checkpoint/quantised_checkpoint.h"

namespace foretoken::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::vector<std::string> kProjections{"q_proj",    "k_proj",   "v_proj",    "o_proj",  "in_proj_qkv",
                                            "in_proj_z", "out_proj", "gate_proj", "up_proj", "down_proj"};
const std::string kExperts = "mtp.layers.0.mlp.experts.";
const std::string kAttention = "mtp.layers.0.self_attn.";

EditableCheckpoint dense() { return EditableCheckpoint(bundled("tiny-dense")); }
EditableCheckpoint moe_by_experts() {
  EditableCheckpoint checkpoint(bundled("tiny-moe"));
  checkpoint.split_experts();
  return checkpoint;
}

std::string load_error(ErrorCode code, const EditableCheckpoint& checkpoint) {
  return error_of(code, [&] { (void)load_edited(checkpoint); });
}

/// All elements of `weight` are those of rows begin .. of the stored matrix `base`; `row_of` maps rows of the weight to them.
template <class RowOf>
void expect_rows(const LinearWeight& weight, const EditableCheckpoint& file, const std::string& base, RowOf&& row_of) {
  const WeightReader reader(weight);
  for (int64_t n = 0; n < weight.out_features(); ++n) {
    const auto [name, row] = row_of(n);
    for (int64_t k = 0; k < weight.in_features(); ++k) {
      ASSERT_DOUBLE_EQ(reader(n, k), stored_element(file, name, row, k)) << base << " (" << n << ", " << k << ")";
    }
  }
}

void expect_matrix(const LinearWeight& weight, const EditableCheckpoint& file, const std::string& base) {
  expect_rows(weight, file, base, [&](int64_t n) { return std::pair(base, n); });
}

class EveryStored : public testing::TestWithParam<Stored> {};

TEST_P(EveryStored, AMatrixKeepsItsValues) {
  EditableCheckpoint checkpoint = dense();
  uint64_t seed = 1;
  for (const std::string& base : linears(checkpoint, "", kProjections)) quantise(checkpoint, base, GetParam(), seed += 10);
  const auto loaded = load_edited(checkpoint);
  EXPECT_FALSE(loaded.all().empty()) << "each weight passes check_weight";
  const DecoderLayerWeights& layer = loaded.model().mtp->layer;
  EXPECT_EQ(to_string(layer.mlp->up_proj.format), to_string(format_of(GetParam())));
  expect_matrix(layer.self_attn->q_proj, checkpoint, kAttention + "q_proj");
  expect_matrix(layer.self_attn->o_proj, checkpoint, kAttention + "o_proj");
  expect_matrix(layer.mlp->down_proj, checkpoint, "mtp.layers.0.mlp.down_proj");
  expect_matrix(loaded.model().target.layers[0].linear_attn->out_proj, checkpoint,
                "model.language_model.layers.0.linear_attn.out_proj");
  EXPECT_EQ(loaded.model().mtp->fc.format, WeightFormat::kBF16);
  EXPECT_EQ(loaded.model().target.lm_head.weight.address(), loaded.model().target.embed_tokens.address()) << "tied";
}

// Field report 7: official releases have FP8 experts of their own, with F32 or BF16 scales and blocks that are not whole.
TEST_P(EveryStored, ExpertsOfTheirOwnBecomeOneStack) {
  EditableCheckpoint checkpoint = moe_by_experts();
  uint64_t seed = 1;
  for (const std::string& base : linears(checkpoint, "mtp.", kProjections)) quantise(checkpoint, base, GetParam(), seed += 10);
  const auto loaded = load_edited(checkpoint);
  EXPECT_FALSE(loaded.all().empty());
  const MoeWeights& moe = *loaded.model().mtp->layer.moe;
  EXPECT_EQ(moe.gate_up_proj.weight.shape(), Shape({8, 192, 192}));
  for (int64_t expert = 0; expert < 8; ++expert) {
    const std::string base = kExperts + std::to_string(expert) + ".";
    expect_rows(moe.gate_up_proj.expert(expert), checkpoint, base,
                [&](int64_t n) { return n < 96 ? std::pair(base + "gate_proj", n) : std::pair(base + "up_proj", n - 96); });
    expect_matrix(moe.down_proj.expert(expert), checkpoint, base + "down_proj");
  }
}

TEST_P(EveryStored, InterleavedProjectionsAreReordered) {
  EditableCheckpoint checkpoint(bundled("tiny-moe"));
  checkpoint.interleave_projections();
  const std::string prefix = "model.language_model.layers.0.linear_attn.";
  quantise(checkpoint, prefix + "in_proj_qkvz", GetParam(), 5);
  quantise(checkpoint, prefix + "in_proj_ba", GetParam(), 15);
  const auto loaded = load_edited(checkpoint);
  EXPECT_FALSE(loaded.all().empty());
  const GatedDeltaNetWeights& w = *loaded.model().target.layers[0].linear_attn;
  // Two key heads of 64, two value heads of 64 to each: 384 rows to a key head, q | k | v | z.
  expect_rows(w.in_proj_qkv, checkpoint, "qkv", [&](int64_t n) {
    if (n < 256) return std::pair(prefix + "in_proj_qkvz", n % 128 / 64 * 384 + n / 128 * 64 + n % 64);
    return std::pair(prefix + "in_proj_qkvz", (n - 256) / 128 * 384 + 128 + (n - 256) % 128);
  });
  expect_rows(w.in_proj_z, checkpoint, "z",
              [&](int64_t n) { return std::pair(prefix + "in_proj_qkvz", n / 128 * 384 + 256 + n % 128); });
  expect_rows(w.in_proj_b, checkpoint, "b", [&](int64_t n) { return std::pair(prefix + "in_proj_ba", n / 2 * 4 + n % 2); });
  expect_rows(w.in_proj_a, checkpoint, "a", [&](int64_t n) { return std::pair(prefix + "in_proj_ba", n / 2 * 4 + 2 + n % 2); });
}

// Field report 43: LM heads differ by vendor.
TEST_P(EveryStored, LmHead) {
  EditableCheckpoint checkpoint(bundled("tiny-moe"));
  quantise(checkpoint, "lm_head", GetParam(), 7);
  const auto loaded = load_edited(checkpoint);
  expect_matrix(loaded.model().target.lm_head, checkpoint, "lm_head");
  EXPECT_EQ(loaded.model().target.embed_tokens.dtype(), DType::kBF16);
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryStored, testing::ValuesIn(kEveryStored),
                         [](const auto& instance) { return to_string(instance.param); });

/// tiny-moe, as a file per expert and as a fused one of the same weights: experts of 128 rows, so that blocks fit both.
struct SameExperts {
  EditableCheckpoint by_experts = moe_by_experts();
  EditableCheckpoint fused{bundled("tiny-moe")};

  explicit SameExperts(Stored stored) {
    constexpr int64_t kInner = 128;
    for (EditableCheckpoint* checkpoint : {&by_experts, &fused}) {
      checkpoint->config["text_config"]["moe_intermediate_size"] = kInner;
      checkpoint->erase_prefix("mtp.layers.0.mlp.experts.");
      // The trunk keeps its experts only where their size is the config's.
      for (auto& [name, tensor] : checkpoint->tensors) {
        if (name.find("experts.") == std::string::npos || name.find("shared") != std::string::npos) continue;
        const bool is_down = name.find("down_proj") != std::string::npos;
        Shape shape = is_down ? Shape{192, kInner} : Shape{kInner, 192};
        if (tensor.shape.rank() == 3) shape = is_down ? Shape{8, 192, kInner} : Shape{8, 2 * kInner, 192};
        tensor = zeros(DType::kBF16, shape);
      }
    }
    for (int64_t expert = 0; expert < 8; ++expert) {
      const std::string base = kExperts + std::to_string(expert) + ".";
      uint64_t seed = 100 * static_cast<uint64_t>(expert);
      for (const char* part : {"gate_proj", "up_proj", "down_proj"}) {
        const bool is_down = part == std::string("down_proj");
        by_experts.tensors[base + part + ".weight"] = zeros(DType::kBF16, is_down ? Shape{192, kInner} : Shape{kInner, 192});
        quantise(by_experts, base + part, stored, seed += 10);
      }
      // A fused file has one scale where an expert has one for gate and one for up.
      for (const char* one : {".weight_scale", ".weight_scale_2"}) {
        const auto gate = by_experts.tensors.find(base + "gate_proj" + one);
        if (gate != by_experts.tensors.end() && gate->second.shape.rank() == 0)
          by_experts.tensors[base + "up_proj" + one] = gate->second;
      }
    }
    fuse(".weight", "");
    fuse(".weight_scale", "_scale");
    fuse(".weight_scale_inv", "_scale_inv");
    fuse(".weight_scale_2", "_scale_2");
  }

 private:
  void fuse(const std::string& suffix, const std::string& fused_suffix) {
    for (const char* part : {"gate_up_proj", "down_proj"}) {
      std::vector<HostTensor> parts;
      for (int64_t expert = 0; expert < 8; ++expert) {
        const std::string base = kExperts + std::to_string(expert) + ".";
        const bool is_down = part == std::string("down_proj");
        const auto first = by_experts.tensors.find(base + (is_down ? "down_proj" : "gate_proj") + suffix);
        if (first == by_experts.tensors.end()) return;
        std::vector<HostTensor> matrix{first->second};
        const bool is_one = first->second.shape.rank() == 0;
        if (!is_down && !is_one) matrix.push_back(by_experts.tensors.at(base + "up_proj" + suffix));
        if (is_one) matrix.front().shape = {1};
        HostTensor joined = concatenate(matrix);
        std::vector<int64_t> extents{1};
        if (!is_one) extents.insert(extents.end(), joined.shape.extents().begin(), joined.shape.extents().end());
        joined.shape = Shape(extents);
        parts.push_back(joined);
      }
      fused.tensors[kExperts + part + fused_suffix] = concatenate(parts);
    }
  }
};

class FusedAndByExpert : public testing::TestWithParam<Stored> {};

// Field report 6: fused and per-expert files of the same weights are the same head, bit by bit.
TEST_P(FusedAndByExpert, SameBits) {
  const SameExperts files(GetParam());
  EXPECT_TRUE(files.fused.tensors.contains(kExperts + "gate_up_proj"));
  const auto fused = load_edited(files.fused);
  EXPECT_EQ(fused.model().mtp->layer.moe->gate_up_proj.format, format_of(GetParam()));
  EXPECT_EQ(fused.all(), load_edited(files.by_experts).all());
}

INSTANTIATE_TEST_SUITE_P(Formats, FusedAndByExpert,
                         testing::Values(Stored::kFp8Tensor, Stored::kFp8Row, Stored::kFp8RowFlat, Stored::kFp8BlockF32,
                                         Stored::kFp8BlockBf16, Stored::kNvfp4ModelOpt),
                         [](const auto& instance) { return to_string(instance.param); });

TEST(QuantisedWeights, OneScaleForAllFusedExperts) {
  SameExperts files(Stored::kFp8Tensor);
  for (const char* part : {"gate_up_proj_scale", "down_proj_scale"})
    files.fused.tensors[kExperts + part] = zeros(DType::kF32, {1});
  const auto loaded = load_edited(files.fused);
  EXPECT_EQ(loaded.model().mtp->layer.moe->down_proj.scale.shape(), Shape({8, 192}));
}

TEST(QuantisedWeights, DeviceThatCannotStoreAFormatNamesTheTensor) {
  const auto device = make_gated_backend(std::make_unique<ReferenceBackend>(), without_nvfp4());
  const auto load = [&](const EditableCheckpoint& checkpoint) {
    const TemporaryFolder folder;
    checkpoint.write(folder.path());
    (void)load_model(*device, Checkpoint(folder.path()), load_model_config(folder.path()));
  };
  EditableCheckpoint checkpoint = dense();
  quantise(checkpoint, kAttention + "o_proj", Stored::kFp8Row, 1);
  load(checkpoint);
  quantise(checkpoint, kAttention + "k_proj", Stored::kNvfp4ModelOpt, 1);
  EXPECT_THAT(error_of(ErrorCode::kUnsupported, [&] { load(checkpoint); }),
              AllOf(HasSubstr(kAttention + "k_proj.weight"), HasSubstr("nvfp4"), HasSubstr(gate_reason(WeightFormat::kNvfp4)),
                    HasSubstr("fp8-row")));
}

TEST(QuantisedWeights, NanCodesAreRefused) {
  struct Case {
    Stored stored;
    const char* tensor;
    size_t at;
    std::byte code;
  };
  const std::string base = kAttention + "o_proj";
  for (const Case& bad :
       {Case{Stored::kFp8Row, ".weight", 0, std::byte{0x7f}}, Case{Stored::kFp8BlockF32, ".weight", 49151, std::byte{0xff}},
        Case{Stored::kNvfp4ModelOpt, ".weight_scale", 1000, std::byte{0x7f}}}) {
    EditableCheckpoint checkpoint = dense();
    quantise(checkpoint, base, bad.stored, 3);
    checkpoint.tensors.at(base + bad.tensor).bytes.at(bad.at) = bad.code;
    EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint),
                AllOf(HasSubstr(base + bad.tensor), HasSubstr("element " + std::to_string(bad.at)), HasSubstr("(NaN)")));
  }
}

TEST(QuantisedWeights, NanCodesOfASecondExpertAreRefusedByTheirOwnName) {
  EditableCheckpoint checkpoint = moe_by_experts();
  for (const std::string& base : linears(checkpoint, kExperts, kProjections)) quantise(checkpoint, base, Stored::kFp8BlockF32, 1);
  checkpoint.tensors.at(kExperts + "5.up_proj.weight").bytes.at(200) = std::byte{0xff};
  EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint),
              AllOf(HasSubstr(kExperts + "5.up_proj.weight"), HasSubstr("element 200")));
}

TEST(QuantisedWeights, ScalesMustBeFinite) {
  const std::string base = kAttention + "o_proj";
  const auto with_scale = [&](Stored stored, const char* name, float value) {
    EditableCheckpoint checkpoint = dense();
    quantise(checkpoint, base, stored, 3);
    HostTensor& scale = checkpoint.tensors.at(base + name);
    const uint16_t bits = float_to_bf16(value);
    const bool is_bf16 = scale.dtype == DType::kBF16;
    std::memcpy(scale.bytes.data(), is_bf16 ? static_cast<const void*>(&bits) : &value, is_bf16 ? 2 : 4);
    return load_error(ErrorCode::kFormatError, checkpoint);
  };
  EXPECT_THAT(with_scale(Stored::kFp8BlockBf16, ".weight_scale_inv", NAN), HasSubstr(base + ".weight_scale_inv"));
  EXPECT_THAT(with_scale(Stored::kFp8RowFlat, ".weight_scale", INFINITY), HasSubstr("element 0"));
  EXPECT_THAT(with_scale(Stored::kNvfp4ModelOpt, ".weight_scale_2", NAN), HasSubstr("finite scale"));
  EXPECT_THAT(with_scale(Stored::kNvfp4Packed, ".weight_global_scale", 0.0F), HasSubstr("positive scale"));
}

TEST(QuantisedWeights, KvScalesUnderEachName) {
  using Names = std::array<const char*, 2>;
  for (const Names& names : {Names{"k_scale", "v_scale"}, Names{"k_proj.k_scale", "v_proj.v_scale"},
                             Names{"attn.k_scale", "attn.v_scale"}, Names{"k_proj.output_scale", "v_proj.output_scale"}}) {
    EditableCheckpoint checkpoint = dense();
    checkpoint.tensors[kAttention + "q_scale"] = random_scales(DType::kF32, {}, 3);
    checkpoint.tensors[kAttention + names[0]] = random_scales(DType::kF32, {}, 1);
    checkpoint.tensors[kAttention + names[1]] = random_scales(DType::kBF16, {1}, 2);
    const auto loaded = load_edited(checkpoint);
    const GatedAttentionWeights& attention = *loaded.model().mtp->layer.self_attn;
    EXPECT_EQ(loaded.bytes(attention.k_scale), checkpoint.tensors.at(kAttention + names[0]).bytes) << names[0];
    ASSERT_EQ(attention.v_scale.dtype(), DType::kF32);
    EXPECT_EQ(attention.v_scale.shape(), Shape({1}));
    EXPECT_TRUE(loaded.model().target.layers[3].self_attn->k_scale.is_absent());
  }
}

TEST(QuantisedWeights, KvScalesComeInPairsAndArePositive) {
  EditableCheckpoint checkpoint = dense();
  checkpoint.tensors[kAttention + "k_scale"] = random_scales(DType::kF32, {}, 1);
  EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint), AllOf(HasSubstr(kAttention + "k_scale"), HasSubstr("one side")));
  checkpoint.tensors[kAttention + "v_scale"] = zeros(DType::kF32, {});
  EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint), AllOf(HasSubstr(kAttention + "v_scale"), HasSubstr("positive")));
  checkpoint.tensors[kAttention + "v_scale"] = zeros(DType::kF32, {2});
  EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint),
              AllOf(HasSubstr(kAttention + "v_scale"), HasSubstr("wrong shape")));
}

}  // namespace
}  // namespace foretoken::test
