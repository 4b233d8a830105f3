// Field report 27: acceptance that falls off far into a text. A small model with random weights, whose caches are filled with
// random rows up to a position of 64K instead of being computed: large keys, so that a few of them decide, and the rotation of
// each counts.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backends/ops.h"
#include "core/ops/random_fill.h"
#include "models/synth.h"
#include "tests/integration/synth/reference_state.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

constexpr int64_t kContext = 65'530;  // the next steps cross 65,536
constexpr int64_t kRoom = 64;
constexpr double kTolerance = 1e-3;  // of a row's largest value, as for the golden values

constexpr const char* kConfig = R"({
  "architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "tie_word_embeddings": true,
  "text_config": {
    "model_type": "qwen3_5_text", "hidden_size": 128, "num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"],
    "full_attention_interval": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 256,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
    "linear_conv_kernel_dim": 4, "vocab_size": 2048, "max_position_embeddings": 131072, "attention_bias": false,
    "attn_output_gate": true, "hidden_act": "silu", "rms_norm_eps": 1e-6, "eos_token_id": 2047, "dtype": "bfloat16",
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
    "tie_word_embeddings": true, "mtp_num_hidden_layers": 1
  }
})";

/// A checkpoint folder of that model while it lives.
class SmallCheckpoint {
 public:
  SmallCheckpoint() : path_(std::filesystem::temp_directory_path() / ("foretoken-long-" + std::to_string(getpid()))) {
    write_synth_checkpoint(SynthSource(kConfig, "the long context's model", 1), path_);
  }
  ~SmallCheckpoint() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  SmallCheckpoint(const SmallCheckpoint&) = delete;
  SmallCheckpoint& operator=(const SmallCheckpoint&) = delete;

  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TestModelOptions options() {
  return {.max_seq_len = kContext + kRoom, .max_drafts = 7, .keep_logits = true, .log_probabilities = true};
}

/// The model with a sequence of kContext - 1 tokens that nobody computed, and the next one read.
class LongText {
 public:
  explicit LongText(const std::string& path) : backend_(open_cpu()), model_(*backend_, path, options()) {
    fill(model_.runner().kv_cache().layer(0), 1);
    fill(model_.proposer().kv_cache().layer(0), 3);
    sequence_.emplace(model_.runner().create_sequence(kContext + kRoom, [](BlockTable& blocks, int32_t) {
      EXPECT_TRUE(blocks.reserve(kContext - 1));
      return kContext - 1;
    }));
    model_.runner().decode(*sequence_, 17);
    newest_token_id_ = model_.runner().read_picks(1)[0];
  }

  [[nodiscard]] TestModel& model() { return model_; }
  [[nodiscard]] TargetSequence& sequence() { return *sequence_; }
  [[nodiscard]] int32_t newest_token_id() const { return newest_token_id_; }

  /// A drafter with a row for each token but the newest.
  [[nodiscard]] std::unique_ptr<ProposerState> drafter() {
    auto state = model_.proposer().alloc_state(kContext + 15);
    place_rows(*state, 0);
    return state;
  }
  /// Its rows are taken to have the pair keys from `first_key` on; those of drafts go.
  void place_rows(ProposerState& state, int64_t first_key) {
    DrafterKv kv = model_.proposer().take_kv(state);
    kv.num_rows = kContext - 1;
    kv.num_keys = first_key + kContext - 1;
    model_.proposer().install_kv(kv, kv.num_keys, state);
  }

  struct Drafts {
    std::vector<int32_t> token_ids;
    std::vector<float> logprobs;
    std::vector<float> hidden;
  };
  Drafts draft(int64_t num_drafts, ProposerState& state) {
    const Tensor block = propose_one(model_.stream(), model_.proposer(), {&newest_token_id_, 1}, model_.runner().model().hidden(),
                                     num_drafts, state);
    Drafts drafts{.token_ids = std::vector<int32_t>(static_cast<size_t>(num_drafts)), .logprobs = {}, .hidden = {}};
    model_.stream().download(block.rows(1, num_drafts).view(), std::as_writable_bytes(std::span(drafts.token_ids)));
    drafts.logprobs = model_.read(model_.proposer().log_probabilities().rows(0, num_drafts).columns(0, 1));
    drafts.hidden = model_.read(model_.proposer().head().hidden().rows(0, 1));
    return drafts;
  }

  std::vector<float> logits(int64_t rows) { return model_.read(model_.runner().logits().rows(0, rows)); }

 private:
  void fill(const PagedKvView& kv, uint64_t id) {
    const auto flat = [](const Tensor& tensor) { return tensor.reshape({tensor.shape().num_elements()}); };
    model_.stream().run([&](CommandList& cmd) {
      ops::dispatch(cmd, RandomFill{.out = flat(kv.k_cache), .seed = 5, .tensor_id = id, .exponent = -4});  // up to 8
      ops::dispatch(cmd, RandomFill{.out = flat(kv.v_cache), .seed = 5, .tensor_id = id + 1, .exponent = -7});
    });
  }

  std::unique_ptr<GpuBackend> backend_;
  TestModel model_;
  std::optional<TargetSequence> sequence_;
  int32_t newest_token_id_ = 0;
};

class LongContextTest : public ::testing::Test {
 protected:
  SmallCheckpoint checkpoint_;
};

TEST_F(LongContextTest, VerifyRowsAt64KHaveTheBitsOfPlainSteps) {
  constexpr int64_t kTokens = 16;
  LongText plain(checkpoint_.path());
  std::vector<int32_t> text{plain.newest_token_id()};
  std::vector<std::vector<float>> expected;
  for (int64_t i = 0; i < kTokens; ++i) {
    plain.model().runner().decode(plain.sequence(), text.back());
    expected.push_back(plain.logits(1));
    text.push_back(plain.model().runner().read_picks(1)[0]);
  }
  EXPECT_EQ(plain.sequence().num_tokens(), kContext + kTokens);

  LongText speculative(checkpoint_.path());
  ASSERT_EQ(speculative.newest_token_id(), text.front());
  TargetRunner& runner = speculative.model().runner();
  const size_t row_bytes = expected.front().size() * sizeof(float);
  size_t done = 0;
  for (const size_t drafts : {3U, 7U, 3U}) {  // all of them right but the last: each step builds on rows that were dropped
    const Buffer memory = speculative.model().backend().allocate(dtype_bytes(DType::kI32, 1 + drafts));
    const Tensor block = memory.tensor(DType::kI32, {static_cast<int64_t>(1 + drafts)});
    std::vector<int32_t> fed(text.begin() + static_cast<std::ptrdiff_t>(done),
                             text.begin() + static_cast<std::ptrdiff_t>(done + 1 + drafts));
    fed.back() = (fed.back() + 1) % 2047;
    speculative.model().stream().upload(std::as_bytes(std::span(fed)), block.view());
    runner.verify(speculative.sequence(), block);
    const StepResult result = runner.finish().front();
    EXPECT_EQ(result.num_accepted, static_cast<int32_t>(drafts) - 1);
    const std::vector<float> logits = speculative.logits(static_cast<int64_t>(drafts));
    for (size_t row = 0; row < drafts; ++row) {
      EXPECT_EQ(std::memcmp(logits.data() + row * expected.front().size(), expected[done + row].data(), row_bytes), 0)
          << "position " << kContext + static_cast<int64_t>(done + row);
    }
    done += drafts;
  }
  EXPECT_GT(kContext + static_cast<int64_t>(done), 65'536);
}

TEST_F(LongContextTest, DraftsAndVerifyRowsAt64KAreThoseOfTheReference) {
  constexpr int64_t kDrafts = 7;
  LongText text(checkpoint_.path());
  const auto drafter = text.drafter();
  const std::vector<float> hidden = text.model().read(text.model().runner().model().hidden().rows(0, 1));
  ReferenceState reference(text.model(), options(), kContext);
  const LongText::Drafts drafts = text.draft(kDrafts, *drafter);
  EXPECT_EQ(text.model().proposer().last_pair_key(*drafter), kContext - 2 + kDrafts);
  const auto expected = reference.draft(text.newest_token_id(), hidden, kDrafts);
  EXPECT_EQ(drafts.token_ids, expected.token_ids);
  for (size_t i = 0; i < drafts.logprobs.size(); ++i) {
    EXPECT_NEAR(drafts.logprobs[i], expected.logprobs[i], kTolerance) << "draft " << i;
  }
  const int64_t hidden_size = text.model().config().hidden_size;
  EXPECT_LT(relative_error(drafts.hidden, expected.hidden, hidden_size), kTolerance);

  std::vector<int32_t> fed{text.newest_token_id()};
  fed.insert(fed.end(), drafts.token_ids.begin(), drafts.token_ids.end());
  const auto rows = static_cast<int64_t>(fed.size());
  text.model().runner().verify(text.sequence(), text.model().proposer().block_token_ids().at(0).rows(0, rows));
  static_cast<void>(text.model().runner().finish());
  EXPECT_LT(relative_error(text.model().read(text.model().runner().model().hidden().rows(0, rows)),
                           reference.verify(fed, kContext, 0), hidden_size),
            kTolerance);
}

/// The test above can fail: rows that are taken for those of the positions next to theirs give other drafts.
TEST_F(LongContextTest, DrafterPositionsAreAbsolute) {
  constexpr int64_t kDrafts = 4;
  LongText text(checkpoint_.path());
  const auto drafter = text.drafter();
  const LongText::Drafts drafts = text.draft(kDrafts, *drafter);
  text.place_rows(*drafter, 1);
  const LongText::Drafts shifted = text.draft(kDrafts, *drafter);
  EXPECT_GT(relative_error(shifted.hidden, drafts.hidden, text.model().config().hidden_size), 10.0 * kTolerance);
  text.place_rows(*drafter, 0);
  EXPECT_EQ(text.draft(kDrafts, *drafter).hidden, drafts.hidden);
}

/// Of a trained head: drafts along texts whose rows begin at position 65,000 hold as often as those of rows that begin at 0.
TEST(LongContextAcceptance, IsFlatUpTo64K) {
  constexpr int64_t kFar = 65'000;
  constexpr int64_t kDrafts = 4;
  const auto backend = open_cpu();
  TestModel model(*backend, "tiny-dense",
                  {.max_seq_len = kFar + 500, .max_drafts = kDrafts, .max_sequences = 2, .num_kv_blocks = 64});
  const Golden golden("tiny-dense.golden.safetensors");
  const Tensor& hidden = model.runner().model().hidden();
  std::vector<int64_t> held(2);
  int64_t num_starts = 0;
  for (const int64_t i : {0, 1, 24, 25, 26}) {
    const std::vector<int32_t> prompt = golden.i32("prompt_" + std::to_string(i));
    const std::vector<int32_t> text = golden.i32("greedy_" + std::to_string(i));
    std::vector<std::unique_ptr<ProposerState>> drafters;
    for (const int64_t first_key : {int64_t{0}, kFar}) {
      drafters.push_back(model.proposer().alloc_state(300));
      if (first_key > 0) model.proposer().skip_to(first_key, *drafters.back());
    }
    TargetSequence sequence = model.runner().create_sequence(300);
    model.runner().prefill(sequence, prompt, [&](int64_t first, int64_t rows) {
      const int64_t known = std::min(rows, static_cast<int64_t>(prompt.size()) - 1 - first);
      const auto next = std::span(prompt).subspan(static_cast<size_t>(first + 1), static_cast<size_t>(known));
      for (const auto& drafter : drafters) {
        model.proposer().append_rows(model.stream(), next, hidden.rows(0, known), LinearPrecision::kExact, *drafter);
      }
    });
    for (size_t start = 0; start + kDrafts < text.size(); ++start) {
      for (size_t which = 0; which < drafters.size(); ++which) {
        const Tensor block =
            propose_one(model.stream(), model.proposer(), std::span(text).subspan(start, 1), hidden, kDrafts, *drafters[which]);
        std::vector<int32_t> ids(kDrafts);
        model.stream().download(block.rows(1, kDrafts).view(), std::as_writable_bytes(std::span(ids)));
        model.proposer().after_verify(0, *drafters[which]);
        held[which] += std::ranges::mismatch(ids, std::span(text).subspan(start + 1)).in1 - ids.begin();
      }
      ++num_starts;
      model.runner().decode(sequence, text[start]);
    }
  }
  ASSERT_GT(num_starts, 100);
  const auto per_start = [num_starts](int64_t count) { return static_cast<double>(count) / static_cast<double>(num_starts); };
  EXPECT_GT(per_start(held[0]), 1.0) << "the head is a trained one";
  EXPECT_NEAR(per_start(held[1]), per_start(held[0]), 0.02);
  RecordProperty("drafts that hold near 0 and near 64K", std::to_string(held[0]) + " and " + std::to_string(held[1]));
}

}  // namespace
}  // namespace foretoken::test
