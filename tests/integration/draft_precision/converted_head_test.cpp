// Which weights of a head are converted, what memory is kept, and what the engine makes of a caller's wishes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <span>

#include "converted_head.h"
#include "models/checkpoint.h"
#include "models/memory_report.h"
#include "models/weight_converter.h"
#include "speculative/engine.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr WeightFormat kBlock = WeightFormat::kFp8Block;

std::map<std::string, std::string> stored(const DraftHead& head) {
  std::map<std::string, std::string> parts;
  for (const StoredFormats& part : stored_formats(head)) parts[std::string(part.part)] = part.formats;
  return parts;
}

size_t bytes_of(const std::vector<Buffer>& buffers) {
  return std::accumulate(buffers.begin(), buffers.end(), size_t{0},
                         [](size_t sum, const Buffer& buffer) { return sum + buffer.bytes(); });
}

class ConvertedHeadTest : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] bool is_moe() const { return GetParam() == "tiny-moe"; }
  [[nodiscard]] LoadedModel load() {
    return load_model(*backend_, Checkpoint(data_path(GetParam())), load_model_config(data_path(GetParam())),
                      {.draft_tensors_apart = true});
  }
  [[nodiscard]] static EngineOptions engine_options(const DraftPrecision& precision) {
    EngineOptions options;
    options.model = data_path(GetParam()).string();
    options.backend = "cpu";
    options.draft_precision = precision;
    return options;
  }
  /// `fields` and what the checkpoint stores elsewhere.
  [[nodiscard]] std::map<std::string, std::string> expected(std::map<std::string, std::string> fields) const {
    fields.insert({{"fc", "bf16"}, {"self_attn", "bf16"}, {"lm_head", "bf16"}});
    if (is_moe()) {
      fields.insert({{"experts", "bf16"}, {"shared_expert", "bf16"}});
      fields.erase("mlp");
    } else {
      fields.insert({"mlp", "bf16"});
      fields.erase("experts");
      fields.erase("shared_expert");
    }
    return fields;
  }

  /// All bytes of a tensor, as elements of T.
  template <class T>
  [[nodiscard]] std::vector<T> read(const Tensor& tensor) {
    std::vector<T> values(tensor.bytes() / sizeof(T));
    stream_->download(tensor.view(), std::as_writable_bytes(std::span(values)));
    return values;
  }

  std::unique_ptr<GpuBackend> backend_ = open_cpu();
  std::unique_ptr<Stream> stream_ = backend_->create_stream();
};

TEST_P(ConvertedHeadTest, ConvertsWhatWasAskedForAndNothingElse) {
  const LoadedModel model = load();
  const auto formats_of = [&](const DraftFormats& formats) {
    return stored(make_draft_head(*backend_, *stream_, model.drafter(), formats));
  };
  EXPECT_EQ(formats_of({}), expected({}));
  EXPECT_EQ(formats_of({.linears = kBlock}),
            expected({{"self_attn", "fp8-block"}, {"mlp", "fp8-block"}, {"shared_expert", "fp8-block"}}));
  EXPECT_EQ(formats_of({.fc = WeightFormat::kNvfp4}), expected({{"fc", "nvfp4"}}));
  EXPECT_EQ(formats_of({.experts = WeightFormat::kNvfp4}), expected({{"experts", "nvfp4"}}));
  EXPECT_EQ(formats_of({.lm_head = kBlock}), expected({{"lm_head", "fp8-block"}}));

  const DraftHead head =
      make_draft_head(*backend_, *stream_, model.drafter(), {.linears = kBlock, .fc = kBlock, .experts = kBlock});
  EXPECT_EQ(head.lm_head.weight.address(), model.target.lm_head.weight.address());
  EXPECT_EQ(head.weights.norm.address(), model.mtp->norm.address());
  EXPECT_EQ(head.weights.layer.self_attn->q_norm.address(), model.mtp->layer.self_attn->q_norm.address());
  if (!is_moe()) return;
  EXPECT_EQ(head.weights.layer.moe->gate.weight.address(), model.mtp->layer.moe->gate.weight.address());
  EXPECT_EQ(head.weights.layer.moe->shared_expert_gate.weight.address(),
            model.mtp->layer.moe->shared_expert_gate.weight.address());
  EXPECT_EQ(head.weights.layer.moe->gate_up_proj.weight.shape(), model.mtp->layer.moe->gate_up_proj.weight.shape());
}

/// Each NVFP4 copy is what convert_weight makes when columns count by the norms in front of the layer.
TEST_P(ConvertedHeadTest, ScalesOfNvfp4CopiesFollowTheNormsInFront) {
  const LoadedModel model = load();
  DraftFormats formats = all_in(WeightFormat::kNvfp4);
  formats.fc = WeightFormat::kNvfp4;
  const DraftHead head = make_draft_head(*backend_, *stream_, model.drafter(), formats);
  const auto expect_copy = [&](const LinearWeight& copy, const LinearWeight& original, const std::vector<Tensor>& norms) {
    std::vector<float> values;
    for (const Tensor& norm : norms) {
      for (const float weight : read<float>(norm)) values.push_back((1.0F + weight) * (1.0F + weight));
    }
    values.resize(static_cast<size_t>(original.in_features()), 1.0F);
    const Buffer memory = backend_->allocate(values.size() * sizeof(float));
    stream_->upload(std::as_bytes(std::span(values)), memory.view());
    const Tensor column_weight = memory.tensor(DType::kF32, {original.in_features()});
    const int64_t row_groups = copy.global_scale.shape().rank() == 2 ? copy.global_scale.dim(1) : 1;
    const ConvertedWeight expected =
        convert_weight(*backend_, *stream_, original, WeightFormat::kNvfp4, row_groups, column_weight);
    EXPECT_EQ(read<uint8_t>(copy.scale), read<uint8_t>(expected.weight.scale));
    EXPECT_EQ(read<uint8_t>(copy.weight), read<uint8_t>(expected.weight.weight));
  };
  const MtpWeights& mtp = *model.mtp;
  const DecoderLayerWeights& layer = mtp.layer;
  const DecoderLayerWeights& narrow = head.weights.layer;
  expect_copy(head.lm_head, model.target.lm_head, {mtp.norm});
  expect_copy(head.weights.fc, mtp.fc, {mtp.pre_fc_norm_embedding, mtp.pre_fc_norm_hidden});
  expect_copy(narrow.self_attn->q_proj, layer.self_attn->q_proj, {layer.input_layernorm});
  expect_copy(narrow.self_attn->v_proj, layer.self_attn->v_proj, {layer.input_layernorm});
  expect_copy(narrow.self_attn->o_proj, layer.self_attn->o_proj, {});
  const MlpWeights& mlp = is_moe() ? layer.moe->shared_expert : *layer.mlp;
  const MlpWeights& narrow_mlp = is_moe() ? narrow.moe->shared_expert : *narrow.mlp;
  expect_copy(narrow_mlp.up_proj, mlp.up_proj, {layer.post_attention_layernorm});
  expect_copy(narrow_mlp.down_proj, mlp.down_proj, {});
  if (!is_moe()) return;
  expect_copy(narrow.moe->gate_up_proj, layer.moe->gate_up_proj, {layer.post_attention_layernorm});
  expect_copy(narrow.moe->down_proj, layer.moe->down_proj, {});
}

TEST_P(ConvertedHeadTest, AWeightInItsFormatAlreadyIsShared) {
  const LoadedModel model = load();
  const DraftHead head = make_draft_head(*backend_, *stream_, model.drafter(), all_in(WeightFormat::kBF16));
  EXPECT_TRUE(head.buffers.empty());
  EXPECT_EQ(head.weights.layer.self_attn->q_proj.weight.address(), model.mtp->layer.self_attn->q_proj.weight.address());
}

/// A head that is quantised already becomes another format by way of its dequantised values.
TEST_P(ConvertedHeadTest, QuantisedHeadsAreConvertedToo) {
  LoadedModel model = load();
  const DraftHead fp8 = make_draft_head(*backend_, *stream_, model.drafter(), all_in(kBlock));
  model.mtp = fp8.weights;
  const DraftHead same = make_draft_head(*backend_, *stream_, model.drafter(), {.linears = kBlock, .experts = kBlock});
  EXPECT_TRUE(same.buffers.empty());
  const DraftHead nvfp4 = make_draft_head(*backend_, *stream_, model.drafter(), all_in(WeightFormat::kNvfp4));
  EXPECT_EQ(stored(nvfp4)["self_attn"], "nvfp4");
  const DraftHead back = make_draft_head(*backend_, *stream_, model.drafter(), all_in(WeightFormat::kBF16));
  EXPECT_EQ(stored(back)["self_attn"], "bf16");
}

TEST_P(ConvertedHeadTest, OriginalsDoNotStayInMemory) {
  const size_t before = backend_->allocated_bytes();
  {
    LoadedModel model = load();
    const size_t loaded = backend_->allocated_bytes();
    const uint64_t weight_bytes = model.weight_bytes;
    const size_t originals = bytes_of(model.draft_buffers);
    const DraftHead head = replace_draft_head(*backend_, *stream_, model, {.linears = kBlock, .experts = kBlock});
    const size_t freed = originals - bytes_of(model.draft_buffers);
    EXPECT_GT(freed, bytes_of(head.buffers) * 3 / 2);
    EXPECT_EQ(backend_->allocated_bytes(), loaded - freed + bytes_of(head.buffers));
    EXPECT_EQ(model.weight_bytes, weight_bytes - freed + bytes_of(head.buffers));
    EXPECT_EQ(model.mtp->layer.self_attn->q_proj.format, kBlock);
    EXPECT_EQ(model.mtp->fc.format, WeightFormat::kBF16);
  }
  EXPECT_EQ(backend_->allocated_bytes(), before);
}

TEST_P(ConvertedHeadTest, BytesOfADraftAreThoseOfTheWeightsThatItReads) {
  const LoadedModel model = load();
  const Checkpoint source(data_path(GetParam()));
  const DraftHead whole = make_draft_head(*backend_, *stream_, model.drafter(), {});
  EXPECT_EQ(draft_step_bytes(whole, model.config), memory_report(source, model.config).draft_step_bytes);
  const DraftHead narrow = make_draft_head(*backend_, *stream_, model.drafter(), {.lm_head = kBlock});
  const uint64_t row = model.target.embed_tokens.rows(0, 1).bytes();
  const uint64_t expected = draft_step_bytes(whole, model.config) - whole.lm_head.bytes() + narrow.lm_head.bytes();
  EXPECT_EQ(draft_step_bytes(narrow, model.config), model.config.tie_word_embeddings ? expected + row : expected);
}

TEST_P(ConvertedHeadTest, TheEngineDraftsInThePrecisionThatItIsAskedFor) {
  const auto generate = [&](const DraftPrecision& precision, const std::map<std::string, std::string>& formats) {
    Engine engine(engine_options(precision));
    const std::vector<int32_t> prompt{4090, 299, 4089};
    engine.load(static_cast<int64_t>(prompt.size()), 48);
    EXPECT_EQ(stored(*engine.draft_head()), formats);
    return engine.generator().generate(prompt, {.max_tokens = 48}).output_token_ids;
  };
  const DraftLmHead checkpoint{.choice = DraftLmHead::Choice::kCheckpoint};
  const auto plain = generate({.lm_head = checkpoint}, expected({}));
  const DraftLmHead copy{.choice = DraftLmHead::Choice::kCopy, .format = WeightFormat::kNvfp4};
  EXPECT_EQ(plain, generate({.linears = kBlock, .experts = WeightFormat::kNvfp4, .lm_head = copy},
                            expected({{"self_attn", "fp8-block"},
                                      {"mlp", "fp8-block"},
                                      {"experts", "nvfp4"},
                                      {"shared_expert", "fp8-block"},
                                      {"lm_head", "nvfp4"}})));
}

TEST_P(ConvertedHeadTest, TheEngineSaysWhichLmHeadItChose) {
  Engine engine(engine_options({}));
  EXPECT_THAT(engine.notes(), Contains(HasSubstr("drafts use the checkpoint's LM head: it is small")));
  engine.load(1, 8);
  EXPECT_EQ(stored(*engine.draft_head())["lm_head"], "bf16");
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, ConvertedHeadTest, ::testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& instance) { return instance.param == "tiny-dense" ? "TinyDense" : "TinyMoe"; });

}  // namespace
}  // namespace foretoken::test
