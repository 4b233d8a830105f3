#include "models/synth.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/ops/random_fill.h"
#include "models/memory_report.h"
#include "tests/unit/checkpoint/loaded_weights.h"

namespace foretoken {
namespace {

using test::error_of;
using testing::AllOf;
using testing::HasSubstr;

uint64_t fnv1a(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const std::byte b : bytes) hash = (hash ^ std::to_integer<uint64_t>(b)) * 0x100000001b3ULL;
  return hash;
}

std::vector<std::byte> read_all(const WeightSource& source, const std::string& name) {
  std::vector<std::byte> scratch;
  const size_t index = source.find(name).value();
  const auto bytes = source.read(index, 0, static_cast<size_t>(source.tensors()[index].bytes), scratch);
  return {bytes.begin(), bytes.end()};
}

TEST(SynthSpec, Parses) {
  const SynthSpec spec = parse_synth_spec("synth:qwen3.5-27b:layers=16:seed=18446744073709551615");
  EXPECT_EQ(spec.model, "qwen3.5-27b");
  EXPECT_EQ(spec.num_layers, 16);
  EXPECT_EQ(spec.seed, UINT64_MAX);
  EXPECT_EQ(parse_synth_spec("qwen3.5-2b").num_layers, 0);
  EXPECT_EQ(parse_synth_spec("qwen3.5-2b").seed, 1U);
  EXPECT_TRUE(is_synth_spec("synth:x"));
  EXPECT_FALSE(is_synth_spec("synthetic"));
}

TEST(SynthSpec, ErrorsSayWhatIsKnown) {
  const auto error = [](const char* text) {
    return error_of(ErrorCode::kInvalidArgument, [&] { (void)parse_synth_spec(text); });
  };
  EXPECT_THAT(error("synth:qwen9"), AllOf(HasSubstr("qwen3.5-0.8b"), HasSubstr("qwen3-next-80b-a3b"), HasSubstr("got qwen9")));
  EXPECT_THAT(error("synth:"), HasSubstr("unknown synthetic model"));
  EXPECT_THAT(error("synth:qwen3.5-2b:layers=25"), HasSubstr("1 to 24"));
  for (const char* text :
       {"synth:qwen3.5-2b:layers=0", "synth:qwen3.5-2b:layers=-1", "synth:qwen3.5-2b:layers=", "synth:qwen3.5-2b:x=1",
        "synth:qwen3.5-2b:seed=1:seed=2", "synth:qwen3.5-2b:layers", "synth:qwen3.5-2b:seed=1x"}) {
    error(text);
  }
}

TEST(Synth, EveryModelPlansCompletely) {
  for (const std::string& model : synth_model_names()) {
    const SynthSource source({.model = model});
    EXPECT_EQ(memory_report(source, source.config()).mtp_absent_reason, "") << model;
  }
}

TEST(Synth, LayerCutsKeepTheOrderOfTypes) {
  EXPECT_EQ(synth_config({.model = "qwen3.5-0.8b", .num_layers = 3}).layer_types.size(), 3U);
  const ModelConfig config = synth_config({.model = "qwen3.5-35b-a3b", .num_layers = 5});
  EXPECT_EQ(config.layer_types[3], LayerType::kFullAttention);
  EXPECT_EQ(config.layer_types[4], LayerType::kLinearAttention);
}

TEST(Synth, BytesNeverChange) {
  const SynthSource source({.model = "qwen3.5-0.8b", .num_layers = 1, .seed = 7});
  const std::string layer = "model.language_model.layers.0.linear_attn.";
  EXPECT_EQ(fnv1a(read_all(source, layer + "A_log")), 15537047732458462178U);
  EXPECT_EQ(fnv1a(read_all(source, layer + "dt_bias")), 17209768275471867591U);
  EXPECT_EQ(fnv1a(read_all(source, layer + "norm.weight")), 1524827322158503665U);
  EXPECT_EQ(fnv1a(read_all(source, "mtp.norm.weight")), 1760030692155197830U);
  EXPECT_EQ(fnv1a(read_all(source, "mtp.fc.weight")), 3322888687400674540U);
}

TEST(Synth, AnyRangeGivesTheSameBytes) {
  const SynthSource source({.model = "qwen3.5-0.8b", .num_layers = 1});
  const std::vector<std::byte> all = read_all(source, "mtp.fc.weight");
  const size_t index = source.find("mtp.fc.weight").value();
  std::vector<std::byte> scratch;
  for (const auto& [begin, count] : {std::pair<size_t, size_t>{1, 3}, {1000, 2049}, {all.size() - 1, 1}, {all.size(), 0}}) {
    const auto part = source.read(index, begin, count, scratch);
    EXPECT_TRUE(std::ranges::equal(part, std::span(all).subspan(begin, count))) << begin;
  }
  error_of(ErrorCode::kInvalidArgument, [&] { (void)source.read(index, all.size(), 1, scratch); });
}

TEST(Synth, SeedsAndTensorsDiffer) {
  const SynthSource one({.model = "qwen3.5-0.8b", .num_layers = 1, .seed = 1});
  const SynthSource two({.model = "qwen3.5-0.8b", .num_layers = 1, .seed = 2});
  EXPECT_NE(read_all(one, "mtp.norm.weight"), read_all(two, "mtp.norm.weight"));
  EXPECT_NE(read_all(one, "mtp.norm.weight"), read_all(one, "mtp.pre_fc_norm_hidden.weight"));
}

/// A source that hides its recipes, so that the loader uploads the bytes.
class BytesOnly final : public WeightSource {
 public:
  explicit BytesOnly(const WeightSource& inner) : inner_(inner) {}
  [[nodiscard]] const std::string& name() const override { return inner_.name(); }
  [[nodiscard]] std::span<const SourceTensor> tensors() const override { return inner_.tensors(); }
  [[nodiscard]] std::optional<size_t> find(std::string_view tensor_name) const override { return inner_.find(tensor_name); }
  [[nodiscard]] std::span<const std::byte> read(size_t index, uint64_t begin, size_t count,
                                                std::vector<std::byte>& scratch) const override {
    return inner_.read(index, begin, count, scratch);
  }
  void release(std::span<const std::byte>) const override {}
  [[nodiscard]] std::optional<RandomRecipe> recipe(size_t) const override { return std::nullopt; }

 private:
  const WeightSource& inner_;
};

/// Synthetic weights in the shapes of a bundled checkpoint.
SynthSource tiny_source(const char* name) {
  return {test::read_file(test::bundled(name) / "config.json"), std::string("synth:") + name, 3};
}

TEST(Synth, DeviceAndHostMakeTheSameBytes) {
  for (const char* name : {"tiny-dense", "tiny-moe"}) {
    const SynthSource source = tiny_source(name);
    EXPECT_EQ(test::LoadedWeights(source, source.config()).all(), test::LoadedWeights(BytesOnly(source), source.config()).all());
  }
}

TEST(Synth, Qwen3NextLayoutLoads) {
  nlohmann::json config = nlohmann::json::parse(test::read_file(test::bundled("tiny-moe") / "config.json"))["text_config"];
  config["model_type"] = "qwen3_next";
  const SynthSource source(config.dump(), "synth:tiny-next", 3);
  ASSERT_TRUE(source.find("model.layers.0.linear_attn.in_proj_qkvz.weight"));
  ASSERT_TRUE(source.find("mtp.layers.0.mlp.experts.7.down_proj.weight"));
  EXPECT_EQ(test::LoadedWeights(source, source.config()).all(), test::LoadedWeights(BytesOnly(source), source.config()).all());
}

TEST(Synth, WrittenCheckpointEqualsTheOneInMemory) {
  const SynthSource source = tiny_source("tiny-moe");
  for (const uint64_t shard_bytes : {uint64_t{4'000'000'000}, uint64_t{4'000'000}, uint64_t{1}}) {
    const test::TemporaryFolder folder;
    const auto directory = folder.path() / "a" / "b";
    uint64_t last = 0;
    uint64_t all = 0;
    write_synth_checkpoint(source, directory,
                           {.progress =
                                [&](uint64_t done, uint64_t total) {
                                  last = done;
                                  all = total;
                                },
                            .shard_bytes = shard_bytes});
    EXPECT_EQ(last, all);
    const Checkpoint written(directory);
    ASSERT_EQ(written.tensors().size(), source.tensors().size());
    for (const SourceTensor& tensor : source.tensors()) EXPECT_EQ(read_all(written, tensor.name), read_all(source, tensor.name));
    const ModelConfig config = load_model_config(directory);
    EXPECT_EQ(config.eos_token_ids, source.config().eos_token_ids);
    EXPECT_EQ(config.num_hidden_layers, 4);
    EXPECT_EQ(std::filesystem::exists(directory / "model.safetensors"), shard_bytes > 1'000'000'000);
  }
}

TEST(Synth, FailedWriteLeavesNothingBehind) {
  const test::TemporaryFolder folder;
  const SynthSource source = tiny_source("tiny-dense");
  const auto path = folder.path();
  test::write_file(path / "mine", "x");
  EXPECT_THAT(error_of(ErrorCode::kInvalidArgument, [&] { write_synth_checkpoint(source, path); }), HasSubstr("empty directory"));
  error_of(ErrorCode::kInvalidArgument, [&] { write_synth_checkpoint(source, path / "mine"); });
  error_of(ErrorCode::kInvalidArgument, [&] { write_synth_checkpoint(source, path / "mine" / "below"); });
  std::filesystem::create_directory(path / "empty");
  const SynthWriteOptions stop{.progress =
                                   [](uint64_t done, uint64_t total) {
                                     if (done > total / 2) throw Error(ErrorCode::kInvalidState, "stopped by the test");
                                   },
                               .shard_bytes = 1'000'000};
  error_of(ErrorCode::kInvalidState, [&] { write_synth_checkpoint(source, path / "empty", stop); });
  error_of(ErrorCode::kInvalidState, [&] { write_synth_checkpoint(source, path / "new" / "deep", stop); });
  EXPECT_TRUE(std::filesystem::is_empty(path / "empty"));
  EXPECT_FALSE(std::filesystem::exists(path / "new"));
  EXPECT_EQ(test::read_file(path / "mine"), "x");
  SynthSource huge({.model = "qwen3.5-397b-a17b"});
  if (std::filesystem::space(path).available < 700'000'000'000) {
    EXPECT_THAT(error_of(ErrorCode::kInvalidArgument, [&] { write_synth_checkpoint(huge, path / "huge"); }),
                HasSubstr("disk space"));
  }
  EXPECT_FALSE(std::filesystem::exists(path / "huge"));
}

}  // namespace
}  // namespace foretoken
