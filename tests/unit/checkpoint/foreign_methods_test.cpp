// What cannot be loaded says so by method and tensor, wrong pairings of weights and scales say what is wrong, and a config never
// decides.
#include <gmock/gmock.h>

#include <functional>

#include "models/safetensors.h"
#include "tests/unit/checkpoint/loaded_weights.h"
#include "tests/unit/checkpoint/quantised_checkpoint.h"

namespace foretoken::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kUp = "model.language_model.layers.1.mlp.up_proj";  // [512, 192]
const std::vector<std::string> kTrunkLinears{"q_proj",    "k_proj",   "v_proj",    "o_proj",  "in_proj_qkv",
                                             "in_proj_z", "out_proj", "gate_proj", "up_proj", "down_proj"};

EditableCheckpoint dense() { return EditableCheckpoint(bundled("tiny-dense")); }

std::string load_error(ErrorCode code, const EditableCheckpoint& checkpoint) {
  return error_of(code, [&] { (void)load_edited(checkpoint); });
}

/// A tensor whose dtype this library has no name for.
struct ForeignTensor {
  std::string suffix;  // behind the name of the layer
  std::string dtype_name;
  Shape shape;
  std::string written_as{};  // for the file: a dtype of the same width that can be written
};

struct ForeignCase {
  const char* name;
  const char* method;    // in the message
  const char* offender;  // suffix of the tensor that the message names
  std::vector<ForeignTensor> tensors;
};

/// A source whose tensors say other dtypes than the file's: for dtypes that the writer does not write.
class Relabelled final : public WeightSource {
 public:
  Relabelled(const WeightSource& source, const std::map<std::string, std::string>& dtypes) : source_(source) {
    for (SourceTensor tensor : source.tensors()) {
      if (const auto found = dtypes.find(tensor.name); found != dtypes.end()) {
        tensor.dtype_name = found->second;
        tensor.dtype = parse_safetensors_dtype(found->second);
      }
      tensors_.push_back(tensor);
    }
  }
  const std::string& name() const override { return source_.name(); }
  std::span<const SourceTensor> tensors() const override { return tensors_; }
  std::optional<size_t> find(std::string_view tensor_name) const override { return source_.find(tensor_name); }
  std::span<const std::byte> read(size_t index, uint64_t begin, size_t count, std::vector<std::byte>& scratch) const override {
    return source_.read(index, begin, count, scratch);
  }
  void release(std::span<const std::byte> bytes) const override { source_.release(bytes); }
  std::optional<RandomRecipe> recipe(size_t) const override { return std::nullopt; }

 private:
  const WeightSource& source_;
  std::vector<SourceTensor> tensors_;
};

/// Loads tiny-dense with the weight of `base` replaced, and gives the error.
std::string foreign_error(ErrorCode code, const std::string& base, const std::vector<ForeignTensor>& tensors) {
  EditableCheckpoint checkpoint = dense();
  checkpoint.tensors.erase(base + ".weight");
  std::map<std::string, std::string> dtypes;
  for (const ForeignTensor& tensor : tensors) {
    const std::string& dtype = tensor.dtype_name;
    const bool is_wide = dtype == "I32" || dtype == "U32" || dtype == "F32";
    const DType written = is_wide ? DType::kI32 : dtype == "F16" || dtype == "BF16" ? DType::kBF16 : DType::kU8;
    checkpoint.tensors[base + tensor.suffix] = zeros(written, tensor.shape);
    dtypes[base + tensor.suffix] = dtype;
  }
  const TemporaryFolder folder;
  checkpoint.write(folder.path());
  const Checkpoint file(folder.path());
  const Relabelled source(file, dtypes);
  return error_of(code, [&] { (void)LoadedWeights(source, load_model_config(folder.path())); });
}

class ForeignMethod : public testing::TestWithParam<ForeignCase> {};

TEST_P(ForeignMethod, IsNamedWithItsTensor) {
  const ForeignCase& c = GetParam();
  for (const std::string& base : {kUp, std::string("mtp.layers.0.self_attn.q_proj")}) {
    EXPECT_THAT(foreign_error(ErrorCode::kUnsupported, base, c.tensors),
                AllOf(HasSubstr(c.method), HasSubstr(base + c.offender)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Methods, ForeignMethod,
    testing::Values(
        ForeignCase{"Gptq",
                    "GPTQ",
                    ".qweight",
                    {{".qweight", "I32", {24, 512}},
                     {".qzeros", "I32", {2, 64}},
                     {".scales", "F16", {2, 512}},
                     {".g_idx", "I32", {192}}}},
        ForeignCase{"GptqWithoutOrder",
                    "GPTQ",
                    ".qweight",
                    {{".qweight", "I32", {24, 512}}, {".qzeros", "I32", {2, 64}}, {".scales", "F16", {2, 512}}}},
        ForeignCase{"PackQuantized",
                    "pack-quantized",
                    ".weight_packed",
                    {{".weight_packed", "I32", {512, 24}}, {".weight_scale", "BF16", {512, 2}}, {".weight_shape", "I64", {2}}}},
        ForeignCase{"Int8", "INT8", ".weight", {{".weight", "I8", {512, 192}}, {".weight_scale", "BF16", {512, 1}}}},
        ForeignCase{"Mxfp4", "MXFP4", ".weight_scale", {{".weight", "U8", {512, 96}}, {".weight_scale", "U8", {512, 6}}}},
        ForeignCase{"Mxfp4Packed",
                    "MXFP4",
                    ".weight_scale",
                    {{".weight_packed", "U8", {512, 96}}, {".weight_scale", "F8_E8M0", {512, 6}}}},
        ForeignCase{"Mxfp4Blocks", "MXFP4", "_blocks", {{"_blocks", "U8", {512, 6, 16}}, {"_scales", "U8", {512, 6}}}},
        ForeignCase{
            "Mxfp8", "MXFP8", ".weight_scale", {{".weight", "F8_E4M3", {512, 192}}, {".weight_scale", "F8_E8M0", {512, 6}}}},
        ForeignCase{
            "BitsAndBytes", "bitsandbytes", ".weight.absmax", {{".weight", "U8", {49152, 1}}, {".weight.absmax", "F32", {1536}}}},
        ForeignCase{"LlmInt8", "bitsandbytes", ".SCB", {{".weight", "I8", {512, 192}}, {".SCB", "F32", {512}}}},
        ForeignCase{"Mlx",
                    "MLX",
                    ".weight",
                    {{".weight", "U32", {512, 24}}, {".scales", "BF16", {512, 3}}, {".biases", "BF16", {512, 3}}}},
        ForeignCase{"Nvfp4Awq",
                    "pre_quant_scale",
                    ".pre_quant_scale",
                    {{".weight", "U8", {512, 96}}, {".pre_quant_scale", "BF16", {192}}}}),
    [](const auto& instance) { return instance.param.name; });

TEST(ForeignMethods, AwqPacksAlongTheOtherAxis) {
  const std::vector<ForeignTensor> tensors{
      {".qweight", "I32", {192, 64}}, {".qzeros", "I32", {2, 64}}, {".scales", "F16", {2, 512}}};
  EXPECT_THAT(foreign_error(ErrorCode::kUnsupported, kUp, tensors), AllOf(HasSubstr("AWQ"), HasSubstr(kUp + ".qweight")));
}

TEST(ForeignMethods, FusedExpertsInMxfp4) {
  EditableCheckpoint checkpoint(bundled("tiny-moe"));
  const std::string name = "mtp.layers.0.mlp.experts.gate_up_proj";
  checkpoint.tensors.erase(name);
  checkpoint.tensors[name + "_blocks"] = zeros(DType::kU8, {8, 192, 6, 16});
  checkpoint.tensors[name + "_scales"] = zeros(DType::kU8, {8, 192, 6});
  EXPECT_THAT(load_error(ErrorCode::kUnsupported, checkpoint), AllOf(HasSubstr("MXFP4"), HasSubstr(name + "_blocks")));
}

TEST(ForeignMethods, QuantisedEmbedding) {
  const std::string base = "model.language_model.embed_tokens";
  for (const Stored stored : {Stored::kFp8Row, Stored::kNvfp4ModelOpt, Stored::kNvfp4Packed}) {
    EditableCheckpoint checkpoint = dense();
    quantise(checkpoint, base, stored, 1);
    EXPECT_THAT(load_error(ErrorCode::kUnsupported, checkpoint), AllOf(HasSubstr(base + ".weight"), HasSubstr("embedding")));
  }
}

// An unknown method in the config is no error by itself; a tensor that cannot be found mentions it.
TEST(ForeignMethods, UnknownMethodOfTheConfigIsMentionedOnlyWhenAWeightIsMissing) {
  EditableCheckpoint checkpoint = dense();
  checkpoint.config["quantization_config"] = {{"quant_method", "quip#"}};
  EXPECT_EQ(load_edited(checkpoint).all(), load_directory(bundled("tiny-dense")).all());
  checkpoint.tensors.erase(kUp + ".weight");
  checkpoint.tensors[kUp + ".Qidxs"] = zeros(DType::kI64, {512, 24});
  EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint), AllOf(HasSubstr(kUp + ".weight is missing"), HasSubstr("quip#")));
  for (const nlohmann::json& odd : {nlohmann::json(3), nlohmann::json({{"quant_method", nlohmann::json::array()}})}) {
    checkpoint = dense();
    checkpoint.config["quantization_config"] = odd;
    EXPECT_TRUE(load_edited(checkpoint).model().mtp) << odd;
  }
}

TEST(WrongPairings, GateAndUpInDifferentFormats) {
  const std::string gate = "model.language_model.layers.1.mlp.gate_proj";
  EditableCheckpoint checkpoint = dense();
  quantise(checkpoint, kUp, Stored::kFp8BlockF32, 1);
  EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint),
              AllOf(HasSubstr(kUp + ".weight"), HasSubstr(gate + ".weight"), HasSubstr("bf16"), HasSubstr("fp8-block")));
  quantise(checkpoint, gate, Stored::kNvfp4ModelOpt, 1);
  EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint), AllOf(HasSubstr("nvfp4"), HasSubstr("fp8-block")));
  checkpoint = dense();
  quantise(checkpoint, gate, Stored::kFp8Tensor, 1);
  quantise(checkpoint, kUp, Stored::kFp8RowFlat, 1);
  EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint), HasSubstr("fp8-row with one F32 scale"));
}

TEST(WrongPairings, ExpertsInDifferentFormats) {
  EditableCheckpoint checkpoint(bundled("tiny-moe"));
  checkpoint.split_experts();
  const std::string prefix = "mtp.layers.0.mlp.experts.";
  for (const std::string& base : linears(checkpoint, prefix, {"gate_proj", "up_proj"})) {
    quantise(checkpoint, base, base == prefix + "3.up_proj" ? Stored::kNvfp4Packed : Stored::kNvfp4ModelOpt, 1);
  }
  EXPECT_THAT(
      load_error(ErrorCode::kFormatError, checkpoint),
      AllOf(HasSubstr(prefix + "3.up_proj.weight_packed"), HasSubstr(prefix + "0.gate_proj.weight"), HasSubstr("reciprocal")));
}

TEST(WrongPairings, WeightsScalesAndShapes) {
  struct Case {
    std::vector<ForeignTensor> tensors;
    std::vector<const char*> message;
  };
  const ForeignTensor codes{".weight", "F8_E4M3", {512, 192}};
  const ForeignTensor packed{".weight", "U8", {512, 96}};
  const ForeignTensor groups{".weight_scale", "F8_E4M3", {512, 12}};
  const ForeignTensor global{".weight_scale_2", "F32", {}};
  for (const Case& c : std::initializer_list<Case>{
           {{codes}, {".weight has no scale", ".weight_scale_inv"}},
           {{codes, {".weight_scale_inv", "F32", {4, 1}}}, {".weight_scale_inv has the wrong shape", "[4, 2]", "got F32 [4, 1]"}},
           {{codes, {".weight_scale", "F16", {512, 1}}}, {".weight_scale has the wrong dtype", "F32 or BF16"}},
           {{codes, {".weight_scale", "F8_E4M3", {512, 12}}}, {".weight_scale has the wrong shape"}},
           {{{".weight", "F8_E4M3", {512, 191}}, {".weight_scale", "F32", {}}}, {".weight has the wrong shape", "[512, 192]"}},
           {{{".weight", "F8_E5M2", {512, 192}}, {".weight_scale", "F32", {}}}, {".weight has the wrong dtype", "F8_E5M2"}},
           {{packed, groups}, {".weight has no scale", ".weight_scale_2"}},
           {{packed, global}, {".weight has no scale", ".weight_scale and"}},
           {{packed, {".weight_scale", "F8_E4M3", {512, 11}}, global}, {".weight_scale has the wrong shape", "[512, 12]"}},
           {{packed, {".weight_scale", "BF16", {512, 12}}, global}, {".weight_scale has the wrong dtype", "F8_E4M3"}},
           {{packed, groups, {".weight_scale_2", "F32", {512}}}, {".weight_scale_2 has the wrong shape"}},
           {{{".weight", "U8", {512, 192}}, groups, global}, {".weight has the wrong shape", "[512, 96]"}},
           {{groups}, {".weight is missing"}},
           {{{".weight", "BF16", {512, 192}}, {".weight_scale_inv", "F32", {4, 2}}},
            {".weight_scale_inv", "scale without a quantised weight"}}}) {
    const std::string message = foreign_error(ErrorCode::kFormatError, kUp, c.tensors);
    for (const char* part : c.message) EXPECT_THAT(message, HasSubstr(part));
    EXPECT_THAT(message, HasSubstr(kUp));
  }
}

TEST(WrongPairings, Nvfp4NeedsWholeGroups) {
  EditableCheckpoint checkpoint = dense();
  checkpoint.config["text_config"]["intermediate_size"] = 504;  // columns of down_proj: 16 does not divide them
  for (auto& [name, tensor] : checkpoint.tensors) {
    if (name.ends_with("gate_proj.weight") || name.ends_with("up_proj.weight")) tensor = zeros(DType::kBF16, {504, 192});
    if (name.ends_with("down_proj.weight")) tensor = zeros(DType::kBF16, {192, 504});
  }
  const std::string base = "mtp.layers.0.mlp.down_proj";
  checkpoint.tensors[base + ".weight"] = zeros(DType::kU8, {192, 252});
  checkpoint.tensors[base + ".weight_scale"] = zeros(DType::kE4M3, {192, 32});
  checkpoint.tensors[base + ".weight_scale_2"] = zeros(DType::kF32, {});
  EXPECT_THAT(load_error(ErrorCode::kFormatError, checkpoint),
              AllOf(HasSubstr(base + ".weight"), HasSubstr("16 divides"), HasSubstr("504 columns")));
}

// Field report 1: an NVFP4 trunk whose config forgets to exclude mtp.fc, which is BF16 like the whole head.
TEST(FieldReports, Nvfp4TrunkWithABf16HeadThatTheConfigDoesNotExclude) {
  EditableCheckpoint checkpoint = dense();
  for (const std::string& base : linears(checkpoint, "model.", kTrunkLinears))
    quantise(checkpoint, base, Stored::kNvfp4ModelOpt, 9);
  checkpoint.config["quantization_config"] = {
      {"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}, {"ignore", nlohmann::json::array({"lm_head", "mtp.layers.0*"})}};
  const auto loaded = load_edited(checkpoint);
  EXPECT_EQ(loaded.model().target.layers[7].mlp->down_proj.format, WeightFormat::kNvfp4);
  EXPECT_EQ(loaded.bytes(loaded.model().mtp->fc.weight), checkpoint.tensors.at("mtp.fc.weight").bytes);
  EXPECT_EQ(loaded.model().mtp->layer.mlp->down_proj.format, WeightFormat::kBF16);
}

// Field report 3: the config says nothing of the head, whose fused experts are BF16 beside a quantised trunk.
TEST(FieldReports, ConfigSaysEverythingIsQuantisedAndTheHeadIsNot) {
  EditableCheckpoint checkpoint(bundled("tiny-moe"));
  for (const std::string& base : linears(checkpoint, "model.", kTrunkLinears))
    quantise(checkpoint, base, Stored::kFp8BlockBf16, 9);
  checkpoint.config["quantization_config"] = {{"quant_method", "fp8"}, {"modules_to_not_convert", nlohmann::json::array()}};
  const auto loaded = load_edited(checkpoint);
  EXPECT_EQ(loaded.model().target.layers[0].moe->shared_expert.up_proj.format, WeightFormat::kFp8Block);
  const LinearWeight& experts = loaded.model().mtp->layer.moe->gate_up_proj;
  EXPECT_EQ(experts.format, WeightFormat::kBF16);
  EXPECT_EQ(loaded.bytes(experts.weight), checkpoint.tensors.at("mtp.layers.0.mlp.experts.gate_up_proj").bytes);
}

/// The opposite: a config that calls everything unquantised, or another format, beside quantised tensors.
TEST(FieldReports, ConfigContradictsTensors) {
  EditableCheckpoint checkpoint = dense();
  for (const std::string& base : linears(checkpoint, "", kTrunkLinears)) quantise(checkpoint, base, Stored::kNvfp4ModelOpt, 9);
  const auto expected = load_edited(checkpoint).all();
  checkpoint.config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  EXPECT_EQ(load_edited(checkpoint).all(), expected);
  checkpoint.config["quantization_config"] = {
      {"quant_method", "modelopt"}, {"quant_algo", "FP8"}, {"ignore", nlohmann::json::array({"*"})}};
  EXPECT_EQ(load_edited(checkpoint).all(), expected);
}

// Mixed precision as released: FP8 attention and delta net, NVFP4 feed-forward, an LM head in NVFP4, a BF16 draft head.
TEST(FieldReports, MixedPrecision) {
  EditableCheckpoint checkpoint(bundled("tiny-moe"));
  checkpoint.split_experts();
  for (const std::string& base : linears(checkpoint, "model.", kTrunkLinears)) {
    const bool is_ffn = base.find(".mlp.") != std::string::npos;
    quantise(checkpoint, base, is_ffn ? Stored::kNvfp4ModelOpt : Stored::kFp8Tensor, 9);
  }
  quantise(checkpoint, "lm_head", Stored::kNvfp4ModelOpt, 1);
  const auto loaded = load_edited(checkpoint);
  const TargetWeights& target = loaded.model().target;
  EXPECT_EQ(target.layers[3].self_attn->q_proj.format, WeightFormat::kFp8Row);
  EXPECT_EQ(target.layers[0].linear_attn->in_proj_qkv.format, WeightFormat::kFp8Row);
  EXPECT_EQ(target.layers[0].linear_attn->in_proj_a.format, WeightFormat::kBF16);
  EXPECT_EQ(target.layers[0].moe->gate_up_proj.format, WeightFormat::kNvfp4);
  EXPECT_EQ(target.layers[0].moe->gate_up_proj.global_scale.shape(), Shape({8, 2}));
  EXPECT_EQ(target.layers[0].moe->gate.format, WeightFormat::kBF16);
  EXPECT_EQ(target.lm_head.format, WeightFormat::kNvfp4);
  EXPECT_EQ(loaded.model().mtp->layer.moe->gate_up_proj.format, WeightFormat::kBF16);
}

}  // namespace
}  // namespace foretoken::test
