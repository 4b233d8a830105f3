#include "models/model_weights.h"

#include <gmock/gmock.h>

#include <bit>
#include <cstring>

#include "backends/registry.h"
#include "tests/unit/checkpoint/loaded_weights.h"

namespace foretoken {
namespace {

using test::EditableCheckpoint;
using test::error_of;
using test::HostTensor;
using test::load_directory;
using test::load_edited;
using test::zeros;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

const std::string kLayer3 = "model.language_model.layers.3.";

EditableCheckpoint dense() { return EditableCheckpoint(test::bundled("tiny-dense")); }
EditableCheckpoint moe() { return EditableCheckpoint(test::bundled("tiny-moe")); }

std::string load_error(ErrorCode code, const EditableCheckpoint& checkpoint) {
  return error_of(code, [&] { (void)load_edited(checkpoint); });
}

HostTensor as_f32(const HostTensor& bf16) {
  HostTensor wide = zeros(DType::kF32, bf16.shape);
  for (size_t i = 0; i < bf16.bytes.size() / 2; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bf16.bytes.data() + 2 * i, 2);
    const float value = bf16_to_float(bits);
    std::memcpy(wide.bytes.data() + 4 * i, &value, 4);
  }
  return wide;
}

TEST(LoadModel, TinyDense) {
  const auto loaded = load_directory(test::bundled("tiny-dense"));
  const LoadedModel& model = loaded.model();
  const EditableCheckpoint file = dense();
  ASSERT_EQ(model.target.layers.size(), 8U);
  ASSERT_TRUE(model.mtp);
  EXPECT_THAT(model.mtp_absent_reason, IsEmpty());
  const GatedAttentionWeights& attention = *model.target.layers[3].self_attn;
  EXPECT_EQ(attention.q_proj.weight.shape(), Shape({512, 192}));
  EXPECT_EQ(attention.q_proj.format, WeightFormat::kBF16);
  EXPECT_EQ(loaded.bytes(attention.q_proj.weight), file.tensors.at(kLayer3 + "self_attn.q_proj.weight").bytes);
  EXPECT_EQ(loaded.bytes(attention.q_norm), as_f32(file.tensors.at(kLayer3 + "self_attn.q_norm.weight")).bytes);
  const GatedDeltaNetWeights& delta = *model.target.layers[0].linear_attn;
  EXPECT_EQ(delta.conv1d.shape(), Shape({512, 4}));
  EXPECT_EQ(delta.A_log.dtype(), DType::kF32);
  EXPECT_EQ(loaded.bytes(delta.A_log), file.tensors.at("model.language_model.layers.0.linear_attn.A_log").bytes);
  EXPECT_EQ(model.target.lm_head.weight.address(), model.target.embed_tokens.address()) << "tied";
  EXPECT_EQ(loaded.bytes(model.mtp->fc.weight), file.tensors.at("mtp.fc.weight").bytes);
}

TEST(LoadModel, TinyMoe) {
  const auto loaded = load_directory(test::bundled("tiny-moe"));
  const MoeWeights& experts = *loaded.model().mtp->layer.moe;
  EXPECT_EQ(experts.gate_up_proj.weight.shape(), Shape({8, 192, 192}));
  EXPECT_EQ(experts.down_proj.weight.shape(), Shape({8, 192, 96}));
  EXPECT_EQ(experts.shared_expert_gate.weight.shape(), Shape({1, 192}));
  EXPECT_NE(loaded.model().target.lm_head.weight.address(), loaded.model().target.embed_tokens.address());
}

TEST(LoadModel, FusedAndPerExpertFilesGiveTheSameBits) {
  EditableCheckpoint split = moe();
  split.split_experts();
  EXPECT_EQ(load_edited(split).all(), load_directory(test::bundled("tiny-moe")).all());
}

TEST(LoadModel, InterleavedProjectionsAreReordered) {
  EditableCheckpoint next = moe();
  next.interleave_projections();
  next.split_experts();
  next.rename_prefix("model.language_model.", "model.");
  next.config = next.config["text_config"];
  next.config["model_type"] = "qwen3_next";
  EXPECT_EQ(load_edited(next).all(), load_directory(test::bundled("tiny-moe")).all());
}

TEST(LoadModel, HeadUnderEachKnownPrefix) {
  const auto expected = load_directory(test::bundled("tiny-dense")).all();
  for (const char* prefix : {"model.mtp.", "language_model.mtp."}) {
    EditableCheckpoint renamed = dense();
    renamed.rename_prefix("mtp.", prefix);
    EXPECT_EQ(load_edited(renamed).all(), expected) << prefix;
  }
  EditableCheckpoint two = dense();
  two.tensors["model.mtp.fc.weight"] = two.tensors.at("mtp.fc.weight");
  EXPECT_THAT(load_error(ErrorCode::kFormatError, two), HasSubstr("two draft heads"));
}

TEST(LoadModel, WidenedWeightsKeepTheirValues) {
  EditableCheckpoint wide = dense();
  for (auto& [name, tensor] : wide.tensors) {
    if (tensor.dtype == DType::kBF16) tensor = as_f32(tensor);
  }
  const auto loaded = load_edited(wide);
  EXPECT_EQ(loaded.model().target.embed_tokens.dtype(), DType::kF32);
  EXPECT_EQ(loaded.model().mtp->fc.format, WeightFormat::kF32);
  EXPECT_EQ(loaded.bytes(loaded.model().mtp->fc.weight), as_f32(dense().tensors.at("mtp.fc.weight")).bytes);
}

// Field reports 1 to 4: the config says that everything is quantised, the tensors are BF16.
TEST(LoadModel, PrecisionFollowsTensorsNotTheConfig) {
  for (const char* method : {"modelopt", "compressed-tensors", "gptq", "awq", "fp8"}) {
    EditableCheckpoint checkpoint = moe();
    checkpoint.split_experts();
    checkpoint.config["quantization_config"] = {{"quant_method", method}, {"bits", 4}, {"ignore", nlohmann::json::array()}};
    const auto loaded = load_edited(checkpoint);
    EXPECT_EQ(loaded.model().mtp->fc.format, WeightFormat::kBF16) << method;
    EXPECT_EQ(loaded.model().mtp->layer.moe->down_proj.format, WeightFormat::kBF16) << method;
  }
}

// Field report 5: exporters drop the head.
TEST(LoadModel, CheckpointWithoutAHeadSaysWhy) {
  EditableCheckpoint checkpoint = dense();
  checkpoint.erase_prefix("mtp.");
  const auto announced = load_edited(checkpoint);
  EXPECT_FALSE(announced.model().mtp);
  EXPECT_EQ(announced.model().mtp_absent_reason, "config.json announces 1 MTP layer, but the checkpoint has no mtp.* tensors");
  checkpoint.config["text_config"].erase("mtp_num_hidden_layers");
  EXPECT_EQ(load_edited(checkpoint).model().mtp_absent_reason, "the checkpoint has no mtp.* tensors");
}

TEST(LoadModel, HeadIsThereWhenItsTensorsAre) {
  EditableCheckpoint checkpoint = dense();
  checkpoint.config["text_config"]["mtp_num_hidden_layers"] = 0;
  EXPECT_TRUE(load_edited(checkpoint).model().mtp);
}

TEST(LoadModel, HeadOfTwoLayersIsRefusedWithAReason) {
  EditableCheckpoint checkpoint = dense();
  checkpoint.tensors["mtp.layers.1.input_layernorm.weight"] = zeros(DType::kBF16, {192});
  const auto by_tensors = load_edited(checkpoint);
  EXPECT_FALSE(by_tensors.model().mtp);
  EXPECT_THAT(by_tensors.model().mtp_absent_reason, StartsWith("a head with 2 MTP layers is not supported: "));
  checkpoint = dense();
  checkpoint.config["text_config"]["mtp_num_hidden_layers"] = 3;
  EXPECT_THAT(load_edited(checkpoint).model().mtp_absent_reason, StartsWith("a head with 3 MTP layers"));
  checkpoint = dense();
  checkpoint.tensors["mtp.layers.x.norm"] = zeros(DType::kBF16, {1});
  EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint), HasSubstr("mtp.layers.x.norm"));
}

TEST(LoadModel, HeadThatWasNotAskedForIsNotLoaded) {
  const auto with = load_directory(test::bundled("tiny-dense"));
  const auto without = load_directory(test::bundled("tiny-dense"), {.load_mtp = false});
  EXPECT_FALSE(without.model().mtp);
  EXPECT_THAT(without.model().mtp_absent_reason, HasSubstr("not loaded"));
  EXPECT_LT(without.model().weight_bytes, with.model().weight_bytes);
}

TEST(LoadModel, MissingTensor) {
  for (const std::string& name :
       {kLayer3 + "self_attn.k_proj.weight", std::string("mtp.fc.weight"), std::string("mtp.norm.weight"),
        std::string("model.language_model.norm.weight"), std::string("model.language_model.layers.0.linear_attn.A_log")}) {
    EditableCheckpoint checkpoint = dense();
    checkpoint.tensors.erase(name);
    EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint),
                AllOf(HasSubstr(name), HasSubstr("missing"), HasSubstr("expected")));
  }
  EditableCheckpoint checkpoint = moe();
  checkpoint.tensors.erase("lm_head.weight");
  EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint), HasSubstr("lm_head.weight is missing"));
  checkpoint = dense();
  checkpoint.erase_prefix("model.language_model.embed_tokens");
  EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint), HasSubstr("embed_tokens.weight is missing"));
}

TEST(LoadModel, MissingExpert) {
  EditableCheckpoint checkpoint = moe();
  checkpoint.split_experts();
  checkpoint.tensors.erase("mtp.layers.0.mlp.experts.5.up_proj.weight");
  EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint), HasSubstr("mtp.layers.0.mlp.experts.5.up_proj.weight is missing"));
}

// Field report 6: a name that nobody matches is an error, not silently random weights.
TEST(LoadModel, UnknownTensor) {
  for (const std::string& name :
       {std::string("mtp.layers.0.mlp.experts.w1"), kLayer3 + "self_attn.rotary.inv_freq",
        std::string("model.language_model.layers.8.input_layernorm.weight"), std::string("other.weight")}) {
    EditableCheckpoint checkpoint = dense();
    checkpoint.tensors[name] = zeros(DType::kBF16, {4});
    EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint), AllOf(HasSubstr(name), HasSubstr("belongs to no layer")));
  }
}

TEST(LoadModel, VisionTowerIsIgnored) {
  EditableCheckpoint checkpoint = dense();
  checkpoint.tensors["model.visual.patch_embed.proj.weight"] = zeros(DType::kBF16, {4, 3, 2, 2, 2});
  EXPECT_TRUE(load_edited(checkpoint).model().mtp);
}

TEST(LoadModel, WrongShapeOrDtype) {
  struct Case {
    std::string name;
    DType dtype;
    Shape shape;
    const char* message;
  };
  const std::string q_proj = kLayer3 + "self_attn.q_proj.weight";
  const std::string conv = "model.language_model.layers.0.linear_attn.conv1d.weight";
  for (const Case& bad :
       {Case{q_proj, DType::kBF16, {511, 192}, "expected F32 or BF16 [512, 192], got BF16 [511, 192]"},
        Case{q_proj, DType::kI32, {512, 192}, "wrong dtype"}, Case{conv, DType::kBF16, {512, 4}, "[512, 1, 4]"},
        Case{"mtp.norm.weight", DType::kI64, {192}, "wrong dtype"}, Case{"mtp.fc.weight", DType::kBF16, {384, 192}, "[192, 384]"},
        Case{"model.language_model.embed_tokens.weight", DType::kI64, {4096, 192}, "wrong dtype"}}) {
    EditableCheckpoint checkpoint = dense();
    checkpoint.tensors[bad.name] = zeros(bad.dtype, bad.shape);
    EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint), AllOf(HasSubstr(bad.name), HasSubstr(bad.message)));
  }
}

TEST(LoadModel, OrphanAndMissingScales) {
  EditableCheckpoint checkpoint = dense();
  checkpoint.tensors["mtp.fc.weight_scale_inv"] = zeros(DType::kF32, {2, 3});
  EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint),
              AllOf(HasSubstr("mtp.fc.weight_scale_inv"), HasSubstr("scale without a quantised weight")));
  checkpoint = dense();
  checkpoint.tensors["mtp.layers.0.mlp.up_proj.weight"] = zeros(DType::kE4M3, {512, 192});
  EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint), HasSubstr("has no scale"));
  checkpoint.tensors["mtp.layers.0.mlp.up_proj.weight_scale_inv"] = zeros(DType::kF32, {4, 1});
  EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint), HasSubstr("expected F32 or BF16 [4, 2]"));
}

TEST(LoadModel, ExpertsInDifferentFormats) {
  EditableCheckpoint checkpoint = moe();
  checkpoint.split_experts();
  const std::string name = "mtp.layers.0.mlp.experts.3.down_proj.weight";
  checkpoint.tensors[name] = as_f32(checkpoint.tensors[name]);
  EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint), AllOf(HasSubstr(name), HasSubstr("bf16"), HasSubstr("f32")));
}

TEST(LoadModel, TiedHeadOfAnExporterIsNotRead) {
  EditableCheckpoint checkpoint = dense();
  checkpoint.tensors["lm_head.weight"] = zeros(DType::kBF16, {4096, 192});
  EXPECT_EQ(load_edited(checkpoint).all(), load_directory(test::bundled("tiny-dense")).all());
}

TEST(LoadModel, ProgressEndsAtTheTotal) {
  std::vector<uint64_t> done;
  uint64_t total = 0;
  const auto loaded = load_directory(test::bundled("tiny-moe"), {.progress = [&](uint64_t d, uint64_t t) {
                                       done.push_back(d);
                                       total = t;
                                     }});
  EXPECT_EQ(done.front(), 0U);
  EXPECT_EQ(done.back(), total);
  EXPECT_TRUE(std::ranges::is_sorted(done));
}

TEST(LoadModel, ThrowLeavesNothingAllocated) {
  const auto backend = BackendRegistry::instance().open("cpu");
  const size_t before = backend->allocated_bytes();
  const ModelConfig config = load_model_config(test::bundled("tiny-dense"));
  const Checkpoint source(test::bundled("tiny-dense"));
  const LoadOptions stop{.progress = [](uint64_t done, uint64_t total) {
    if (done > total / 2) throw Error(ErrorCode::kInvalidState, "stopped by the test");
  }};
  error_of(ErrorCode::kInvalidState, [&] { (void)load_model(*backend, source, config, stop); });
  EXPECT_EQ(backend->allocated_bytes(), before);
  {
    const LoadedModel model = load_model(*backend, source, config);
    EXPECT_GE(backend->allocated_bytes(), before + model.weight_bytes);
  }
  EXPECT_EQ(backend->allocated_bytes(), before);
}

}  // namespace
}  // namespace foretoken
