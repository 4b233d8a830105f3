// Quantised checkpoints, tensor by tensor, against the released ones' checksums; and what may not be quantised.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "backends/registry.h"
#include "core/error.h"
#include "models/checkpoint.h"
#include "models/checkpoint_quantizer.h"
#include "models/model_config.h"
#include "models/safetensors_writer.h"
#include "tests/support/late_device.h"

namespace foretoken {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

namespace fs = std::filesystem;

fs::path data(const std::string& name) { return fs::path(FORETOKEN_TEST_DATA) / name; }

nlohmann::json read_json(const fs::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

uint64_t fnv1a(uint64_t hash, std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) hash = (hash ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3ULL;
  return hash;
}

/// dtype and shape as text, then the bytes.
std::string checksum(const Checkpoint& checkpoint, size_t index) {
  const SourceTensor& tensor = checkpoint.tensors()[index];
  const std::string kind = tensor.dtype_name + " " + tensor.shape.to_string();
  std::vector<std::byte> scratch;
  const uint64_t hash =
      fnv1a(fnv1a(0xcbf29ce484222325ULL, std::as_bytes(std::span(kind))), checkpoint.read(index, 0, tensor.bytes, scratch));
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

class Quantize : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "foretoken-quantize-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path output() const { return folder_ / "new" / "out"; }

  QuantizeSummary run(const std::string& model, const QuantizeOptions& options) {
    fs::remove_all(folder_ / "new");
    return quantize_checkpoint(*backend_, data(model), output(), options);
  }

  void expect_golden(const std::string& name) const {
    const nlohmann::json golden = read_json(data("golden/quantized.json")).at(name);
    const Checkpoint checkpoint(output());
    EXPECT_EQ(checkpoint.tensors().size(), golden.size());
    for (const auto& [tensor, expected] : golden.items()) {
      const auto index = checkpoint.find(tensor);
      ASSERT_TRUE(index.has_value()) << tensor;
      EXPECT_EQ(checksum(checkpoint, *index), expected.get<std::string>()) << tensor;
    }
  }

  /// The error of quantising folder `model`, which must leave nothing behind.
  std::string error_of(const fs::path& model, const QuantizeOptions& options, ErrorCode code) {
    std::string message;
    try {
      (void)quantize_checkpoint(*backend_, model, output(), options);
      ADD_FAILURE() << "was quantised";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      message = error.what();
    }
    EXPECT_FALSE(fs::exists(folder_ / "new"));
    return message;
  }

  /// A checkpoint of one tensor, all elements `value`.
  fs::path checkpoint_of(const SafetensorsTensor& tensor, float value = 0.5F) {
    const fs::path path = folder_ / "in";
    fs::remove_all(path);
    fs::create_directories(path);
    std::vector<std::byte> bytes;
    for (int64_t i = 0; i < tensor.shape.num_elements(); ++i) {
      const uint16_t bf16 = float_to_bf16(value);
      const auto view = tensor.dtype == DType::kF32    ? std::as_bytes(std::span(&value, 1))
                        : tensor.dtype == DType::kBF16 ? std::as_bytes(std::span(&bf16, 1))
                                                       : std::as_bytes(std::span(&bf16, 1)).first(1);
      bytes.insert(bytes.end(), view.begin(), view.end());
    }
    SafetensorsWriter writer(path / "model.safetensors", {tensor});
    writer.append(bytes);
    writer.finish();
    std::ofstream(path / "config.json") << "{}";
    return path;
  }

  std::unique_ptr<GpuBackend> backend_ = BackendRegistry::instance().open("cpu", {.num_threads = 2});
  fs::path folder_;
};

TEST_F(Quantize, DenseFp8WithBf16Scales) {
  const QuantizeSummary summary = run("tiny-dense", {.block_scale_dtype = DType::kBF16});
  expect_golden("tiny-dense-fp8");
  EXPECT_EQ(summary.num_quantized, 57U);
  EXPECT_LT(summary.result_bytes, summary.source_bytes);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    EXPECT_EQ(read_json(output() / name), read_json(data("tiny-dense") / name)) << name;
  }
}

TEST_F(Quantize, DenseNvfp4OfTheTarget) {
  (void)run("tiny-dense", {.format = WeightFormat::kNvfp4, .scope = {.target = true, .mtp = false}});
  expect_golden("tiny-dense-nvfp4");
}

TEST_F(Quantize, MoeFp8SplitsFusedExperts) {
  (void)run("tiny-moe", {});
  expect_golden("tiny-moe-fp8");
}

TEST_F(Quantize, EveryInstructionSetAndALateDeviceGiveTheSameFiles) {
  for (const char* isa : {"scalar", "avx2", "late"}) {
    if (isa == std::string("late")) {
      backend_ = test::make_late_backend({.num_threads = 2});
    } else {
      setenv("FORETOKEN_CPU_ISA", isa, 1);
      try {
        backend_ = BackendRegistry::instance().open("cpu", {.num_threads = 1});
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kUnsupported) throw;
        continue;
      }
      unsetenv("FORETOKEN_CPU_ISA");
    }
    (void)run("tiny-dense", {.format = WeightFormat::kNvfp4, .scope = {.target = true, .mtp = false}});
    expect_golden("tiny-dense-nvfp4");
  }
}

TEST_F(Quantize, ShardsHoldTheSameTensors) {
  (void)run("tiny-moe", {.shard_bytes = 1 << 20});
  EXPECT_TRUE(fs::exists(output() / "model.safetensors.index.json"));
  EXPECT_FALSE(fs::exists(output() / "model.safetensors"));
  EXPECT_GT(read_json(output() / "model.safetensors.index.json").at("weight_map").size(), 300U);
  expect_golden("tiny-moe-fp8");
}

TEST_F(Quantize, RowsHaveOneScaleEach) {
  (void)run("tiny-dense", {.format = WeightFormat::kFp8Row, .scope = {.target = false, .mtp = true}});
  const Checkpoint checkpoint(output());
  const SourceTensor& scale = checkpoint.tensors()[*checkpoint.find("mtp.layers.0.self_attn.q_proj.weight_scale")];
  EXPECT_EQ(scale.dtype, DType::kF32);
  EXPECT_EQ(scale.shape, (Shape{512, 1}));
  EXPECT_EQ(checkpoint.tensors()[*checkpoint.find("mtp.layers.0.self_attn.q_proj.weight")].dtype, DType::kE4M3);
  EXPECT_FALSE(checkpoint.find("model.language_model.layers.0.mlp.up_proj.weight_scale").has_value());
  const nlohmann::json config = read_json(output() / "config.json").at("quantization_config");
  EXPECT_EQ(config.at("quant_method"), "compressed-tensors");
  EXPECT_THAT(config.at("ignore"), Contains("model.language_model.layers.0.mlp.up_proj"));
}

TEST_F(Quantize, ConfigListsEveryLayerLeftOut) {
  (void)run("tiny-moe", {});
  const nlohmann::json config = read_json(output() / "config.json").at("quantization_config");
  EXPECT_EQ(config.at("quant_method"), "fp8");
  EXPECT_EQ(config.at("weight_block_size"), (std::vector<int>{128, 128}));
  const auto left_out = config.at("modules_to_not_convert").get<std::vector<std::string>>();
  EXPECT_THAT(left_out, IsSupersetOf({"lm_head", "mtp.fc", "model.language_model.embed_tokens", "mtp.layers.0.mlp.gate",
                                      "mtp.layers.0.mlp.shared_expert_gate", "model.language_model.layers.0.mlp.gate",
                                      "model.language_model.layers.0.linear_attn.conv1d",
                                      "model.language_model.layers.0.linear_attn.in_proj_a",
                                      "model.language_model.layers.2.linear_attn.in_proj_b"}));
  EXPECT_THAT(left_out, Not(Contains("model.language_model.layers.0.mlp.experts")));
  EXPECT_THAT(left_out, Not(Contains("model.language_model.layers.0.linear_attn.out_proj")));

  (void)run("tiny-moe", {.format = WeightFormat::kNvfp4, .scope = {.target = true, .mtp = false}});
  const nlohmann::json modelopt = read_json(output() / "config.json").at("quantization_config");
  EXPECT_EQ(modelopt.at("quant_algo"), "NVFP4");
  EXPECT_THAT(modelopt.at("ignore").get<std::vector<std::string>>(),
              IsSupersetOf({"mtp.layers.0.mlp.experts", "mtp.layers.0.self_attn.q_proj"}));
}

TEST_F(Quantize, LmHeadOnlyWhenNamed) {
  const QuantizeScope head_only{.target = false, .mtp = false, .lm_head = true};
  (void)run("tiny-moe", {.scope = head_only});
  const Checkpoint own(output());
  EXPECT_EQ(own.tensors()[*own.find("lm_head.weight")].dtype, DType::kE4M3);
  EXPECT_TRUE(own.find("lm_head.weight_scale_inv").has_value());

  (void)run("tiny-dense", {.format = WeightFormat::kNvfp4, .scope = head_only});
  const Checkpoint tied(output());
  EXPECT_EQ(tied.tensors()[*tied.find("lm_head.weight")].shape, (Shape{4096, 96}));
  EXPECT_TRUE(tied.find("lm_head.weight_scale_2").has_value());
  EXPECT_EQ(tied.tensors()[*tied.find("model.language_model.embed_tokens.weight")].dtype, DType::kBF16);
  EXPECT_FALSE(load_model_config(output()).tie_word_embeddings);
  EXPECT_TRUE(load_model_config(data("tiny-dense")).tie_word_embeddings);
}

TEST_F(Quantize, RefusesAndLeavesNothingBehind) {
  const std::string q_proj = "model.layers.0.self_attn.q_proj.weight";
  const QuantizeOptions nvfp4{.format = WeightFormat::kNvfp4};
  EXPECT_THAT(
      error_of(checkpoint_of({.name = q_proj, .dtype = DType::kBF16, .shape = {32, 24}}), nvfp4, ErrorCode::kInvalidArgument),
      HasSubstr(q_proj));
  EXPECT_THAT(
      error_of(checkpoint_of({.name = q_proj, .dtype = DType::kE4M3, .shape = {32, 32}}), {}, ErrorCode::kInvalidArgument),
      testing::AllOf(HasSubstr(q_proj), HasSubstr("quantised already")));
  const std::string scale = "model.layers.0.self_attn.q_proj.weight_scale";
  EXPECT_THAT(error_of(checkpoint_of({.name = scale, .dtype = DType::kF32, .shape = {32}}), {}, ErrorCode::kInvalidArgument),
              testing::AllOf(HasSubstr(scale), HasSubstr("quantised already")));
  EXPECT_THAT(error_of(checkpoint_of({.name = q_proj, .dtype = DType::kU8, .shape = {8, 32}}), {}, ErrorCode::kInvalidArgument),
              HasSubstr(q_proj));
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    EXPECT_THAT(
        error_of(checkpoint_of({.name = q_proj, .dtype = DType::kF32, .shape = {8, 32}}, bad), {}, ErrorCode::kFormatError),
        HasSubstr(q_proj));
  }
  EXPECT_THAT(error_of(checkpoint_of({.name = "model.norm.weight", .dtype = DType::kBF16, .shape = {8}}), {},
                       ErrorCode::kInvalidArgument),
              HasSubstr("no linear layer"));
  (void)error_of(folder_ / "nowhere", {}, ErrorCode::kInvalidArgument);
}

TEST_F(Quantize, StopsBetweenSlicesAndLeavesNothingBehind) {
  QuantizeOptions options;
  options.progress = [](uint64_t done, uint64_t total) {
    if (done > total / 2) throw Error(ErrorCode::kInvalidState, "interrupted");
  };
  EXPECT_THAT(error_of(data("tiny-moe"), options, ErrorCode::kInvalidState), HasSubstr("interrupted"));
}

TEST_F(Quantize, TheOutputFolderMustBeNewOrEmpty) {
  fs::create_directories(output());
  (void)quantize_checkpoint(*backend_, data("tiny-dense"), output(), {});
  EXPECT_THROW((void)quantize_checkpoint(*backend_, data("tiny-dense"), output(), {}), Error);
  EXPECT_TRUE(fs::exists(output() / "model.safetensors")) << "what was there stays";
}

TEST_F(Quantize, ScopesAreListed) {
  EXPECT_EQ(parse_quantize_scope("mtp"), (QuantizeScope{.target = false, .mtp = true, .lm_head = false}));
  EXPECT_EQ(parse_quantize_scope("lm-head,target"), (QuantizeScope{.target = true, .mtp = false, .lm_head = true}));
  for (const char* bad : {"", "mtp,", "head", "target mtp"}) EXPECT_THROW((void)parse_quantize_scope(bad), Error) << bad;
}

}  // namespace
}  // namespace foretoken
