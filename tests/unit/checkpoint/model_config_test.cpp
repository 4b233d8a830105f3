#include "models/model_config.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/unit/checkpoint/test_files.h"

namespace foretoken {
namespace {

using nlohmann::json;
using test::error_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

json tiny(const char* name) { return json::parse(test::read_file(test::bundled(name) / "config.json")); }

ModelConfig parse(const json& root) { return parse_model_config(root.dump(), "config.json"); }

TEST(ModelConfig, TinyDense) {
  const ModelConfig config = load_model_config(test::bundled("tiny-dense"));
  EXPECT_EQ(config.family, ModelFamily::kQwen3_5);
  EXPECT_EQ(config.hidden_size, 192);
  EXPECT_EQ(config.intermediate_size, 512);
  EXPECT_EQ(config.num_hidden_layers, 8);
  EXPECT_EQ(config.layer_types[2], LayerType::kLinearAttention);
  EXPECT_EQ(config.layer_types[3], LayerType::kFullAttention);
  EXPECT_EQ(config.rotary_dim(), 16);
  EXPECT_EQ(config.conv_channels(), 512);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_FALSE(config.is_moe());
  EXPECT_EQ(config.mtp_num_hidden_layers, 1);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(4091, 4089));
}

TEST(ModelConfig, TinyMoe) {
  const ModelConfig config = load_model_config(test::bundled("tiny-moe"));
  EXPECT_EQ(config.family, ModelFamily::kQwen3_5Moe);
  EXPECT_EQ(config.num_experts, 8);
  EXPECT_EQ(config.num_experts_per_tok, 2);
  EXPECT_EQ(config.moe_intermediate_size, 96);
  EXPECT_FALSE(config.tie_word_embeddings);
}

TEST(ModelConfig, FlatFileWithFlatRopeKeysAndDefaults) {
  json root = tiny("tiny-dense")["text_config"];
  root.erase("rope_parameters");
  root.erase("layer_types");
  root.erase("full_attention_interval");
  root.erase("mtp_num_hidden_layers");
  root["rope_theta"] = 5e6;
  root["num_experts"] = nullptr;
  const ModelConfig config = parse(root);
  EXPECT_EQ(config.rope_theta, 5e6);
  EXPECT_EQ(config.partial_rotary_factor, 0.25);
  EXPECT_EQ(config.layer_types[3], LayerType::kFullAttention);
  EXPECT_EQ(config.layer_types[4], LayerType::kLinearAttention);
  EXPECT_EQ(config.mtp_num_hidden_layers, 0);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(4089));
}

TEST(ModelConfig, Qwen3NextHasOneMtpLayerByDefault) {
  json root = tiny("tiny-moe")["text_config"];
  root["model_type"] = "qwen3_next";
  root.erase("mtp_num_hidden_layers");
  EXPECT_EQ(parse(root).mtp_num_hidden_layers, 1);
  root["num_nextn_predict_layers"] = 2;
  EXPECT_EQ(parse(root).mtp_num_hidden_layers, 2);
  root.erase("model_type");
  root["architectures"] = {"Qwen3NextForCausalLM"};
  EXPECT_EQ(parse(root).family, ModelFamily::kQwen3Next);
}

struct BadValue {
  const char* key;
  json value;
  ErrorCode code;
};

class BadConfig : public testing::TestWithParam<BadValue> {};

TEST_P(BadConfig, ErrorNamesTheKeyAndTheValue) {
  json root = tiny("tiny-moe");
  root["text_config"][GetParam().key] = GetParam().value;
  const std::string message = error_of(GetParam().code, [&] { (void)parse(root); });
  EXPECT_THAT(message, AllOf(HasSubstr("config.json"), HasSubstr(GetParam().key), HasSubstr("expected"), HasSubstr("got")));
}

INSTANTIATE_TEST_SUITE_P(
    Values, BadConfig,
    testing::Values(
        BadValue{"hidden_size", 0, ErrorCode::kFormatError}, BadValue{"hidden_size", "192", ErrorCode::kFormatError},
        BadValue{"hidden_size", 192.5, ErrorCode::kFormatError}, BadValue{"hidden_size", nullptr, ErrorCode::kFormatError},
        BadValue{"hidden_size", 18446744073709551615U, ErrorCode::kFormatError},
        BadValue{"num_hidden_layers", -1, ErrorCode::kFormatError}, BadValue{"num_hidden_layers", 1e9, ErrorCode::kFormatError},
        BadValue{"num_key_value_heads", 3, ErrorCode::kFormatError}, BadValue{"linear_num_key_heads", 3, ErrorCode::kFormatError},
        BadValue{"vocab_size", json::array(), ErrorCode::kFormatError}, BadValue{"rms_norm_eps", -1e-6, ErrorCode::kFormatError},
        BadValue{"rms_norm_eps", 1e30, ErrorCode::kFormatError}, BadValue{"rms_norm_eps", true, ErrorCode::kFormatError},
        BadValue{"num_experts_per_tok", 9, ErrorCode::kFormatError},
        BadValue{"layer_types", json::array({"full_attention"}), ErrorCode::kFormatError},
        BadValue{"layer_types", json::array({"a", "b", "c", "d"}), ErrorCode::kFormatError},
        BadValue{"norm_topk_prob", 1, ErrorCode::kFormatError}, BadValue{"eos_token_id", 4096, ErrorCode::kFormatError},
        BadValue{"eos_token_id", json::array({1, "x"}), ErrorCode::kFormatError},
        BadValue{"model_type", "llama", ErrorCode::kFormatError}, BadValue{"rope_parameters", 3, ErrorCode::kFormatError},
        BadValue{"mtp_num_hidden_layers", -1, ErrorCode::kFormatError}, BadValue{"head_dim", 66, ErrorCode::kFormatError},
        BadValue{"hidden_act", "gelu", ErrorCode::kUnsupported}, BadValue{"attention_bias", true, ErrorCode::kUnsupported},
        BadValue{"attn_output_gate", false, ErrorCode::kUnsupported},
        BadValue{"linear_conv_kernel_dim", 3, ErrorCode::kUnsupported},
        BadValue{"mlp_only_layers", json::array({1}), ErrorCode::kUnsupported}),
    [](const auto& param) { return std::string(param.param.key) + std::to_string(param.index); });

TEST(ModelConfig, BadRopeParameters) {
  json root = tiny("tiny-dense");
  root["text_config"]["rope_parameters"]["rope_type"] = "yarn";
  EXPECT_THAT(error_of(ErrorCode::kUnsupported, [&] { (void)parse(root); }), HasSubstr("yarn"));
  root["text_config"]["rope_parameters"]["rope_type"] = "default";
  root["text_config"]["rope_parameters"]["partial_rotary_factor"] = 0.0;
  EXPECT_THAT(error_of(ErrorCode::kFormatError, [&] { (void)parse(root); }), HasSubstr("partial_rotary_factor"));
}

TEST(ModelConfig, TextThatIsNoJsonNamesTheLastKey) {
  const auto error = [](const char* text) {
    return error_of(ErrorCode::kFormatError, [&] { (void)parse_model_config(text, "config.json"); });
  };
  EXPECT_THAT(error(R"({"rms_norm_eps": NaN})"), HasSubstr("after key `rms_norm_eps`"));
  EXPECT_THAT(error(R"({"rms_norm_eps": 1e999})"), HasSubstr("after key `rms_norm_eps`"));
  EXPECT_THAT(error(R"({"a": 1, "a": 2})"), HasSubstr("twice"));
  EXPECT_THAT(error("[]"), HasSubstr("expected an object, got array"));
  EXPECT_THAT(error(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(error(std::string(100000, '[').c_str()), HasSubstr("nested too deeply"));
}

TEST(ModelConfig, MissingFiles) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(error_of(ErrorCode::kInvalidArgument, [&] { (void)load_model_config(folder.path() / "absent"); }),
              HasSubstr("no such checkpoint directory"));
  EXPECT_THAT(error_of(ErrorCode::kInvalidArgument, [&] { (void)load_model_config(folder.path()); }), HasSubstr("config.json"));
}

}  // namespace
}  // namespace foretoken
