// Drafts from some of the tokens: the same text, drafts of these tokens only, and with all of them nothing changes.
#include "models/draft_vocab.h"

#include <gmock/gmock.h>

#include <numeric>
#include <set>

#include "converted_head.h"
#include "core/error.h"
#include "speculative/acceptance.h"
#include "speculative/engine.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

using testing::Each;
using testing::HasSubstr;

class DraftVocabTest : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] std::vector<int32_t> prompt(int64_t i) const { return golden_.i32("prompt_" + std::to_string(i)); }
  [[nodiscard]] std::vector<int32_t> text(int64_t i) const { return golden_.i32("greedy_" + std::to_string(i)); }

  /// `size` ids that lie apart, among them those of a golden text.
  [[nodiscard]] std::vector<int32_t> scattered(int64_t size) const {
    std::set<int32_t> ids;
    for (const int32_t id : text(25)) ids.insert(id);
    const int64_t vocab_size = model_.config().vocab_size;
    for (int64_t i = 0; std::ssize(ids) < size; ++i) ids.insert(static_cast<int32_t>(i * 7919 % vocab_size));
    return {ids.begin(), ids.end()};
  }
  [[nodiscard]] std::vector<int32_t> first(int64_t size) const {
    std::vector<int32_t> ids(static_cast<size_t>(size));
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }
  [[nodiscard]] std::vector<std::vector<int32_t>> vocabularies() const {
    return {{17}, first(1), first(100), scattered(64), scattered(1000)};
  }

  /// Eight drafts after a prompt.
  std::vector<int32_t> drafts(DraftProposer& proposer, const std::vector<int32_t>& ids) {
    TargetSequence sequence = model_.runner().create_sequence(256);
    const auto state = proposer.alloc_state(256);
    const auto append = [&](int64_t first_position, int64_t num_rows) {
      const int64_t known = std::min(num_rows, std::ssize(ids) - 1 - first_position);
      if (known == 0) return;
      proposer.append_rows(model_.stream(),
                           std::span(ids).subspan(static_cast<size_t>(first_position + 1), static_cast<size_t>(known)),
                           model_.runner().model().hidden().rows(0, known), LinearPrecision::kExact, *state);
    };
    model_.runner().prefill(sequence, ids, append);
    const Tensor block =
        propose_one(model_.stream(), proposer, model_.runner().read_picks(1), model_.runner().model().hidden(), 8, *state);
    std::vector<int32_t> result(8);
    model_.stream().download(block.rows(1, 8).view(), std::as_writable_bytes(std::span(result)));
    return result;
  }

  std::unique_ptr<GpuBackend> backend_ = open_cpu();
  Golden golden_{GetParam() + ".golden.safetensors"};
  TestModelOptions options_{.max_seq_len = 256, .log_probabilities = true};
  TestModel model_{*backend_, GetParam(), options_};
};

TEST_P(DraftVocabTest, TheTextStaysTheSame) {
  for (const std::vector<int32_t>& vocab : vocabularies()) {
    ConvertedHead head(model_, {}, options_, vocab);
    GenerationEngine generator(
        {.backend = backend_.get(), .stream = &model_.stream(), .runner = &model_.runner(), .proposer = &head.proposer()});
    for (const int64_t i : {1, 25}) {
      for (const int64_t depth : {1, 3, 8}) {
        const GenerationResult result = generator.generate(
            prompt(i), {.max_tokens = 64, .num_speculative_tokens = depth, .stop_token_ids = model_.config().eos_token_ids});
        EXPECT_EQ(result.output_token_ids, text(i)) << vocab.size() << " tokens, prompt " << i << ", depth " << depth;
      }
    }
  }
}

TEST_P(DraftVocabTest, NothingElseIsDrafted) {
  for (const std::vector<int32_t>& vocab : vocabularies()) {
    for (const DraftFormats& formats :
         {DraftFormats{}, all_in(WeightFormat::kFp8Row), all_in(WeightFormat::kFp8Block), all_in(WeightFormat::kNvfp4)}) {
      ConvertedHead head(model_, formats, options_, vocab);
      EXPECT_EQ(head.head().lm_head.out_features(), std::ssize(vocab));
      EXPECT_EQ(head.head().lm_head.format, formats.lm_head.value_or(model_.loaded().target.lm_head.format));
      const std::set<int32_t> allowed(vocab.begin(), vocab.end());
      EXPECT_THAT(drafts(head.proposer(), prompt(3)), Each(testing::Truly([&](int32_t id) { return allowed.contains(id); })));
    }
  }
}

TEST_P(DraftVocabTest, WhatIsBestInTheWholeVocabularyIsBestInAPartOfIt) {
  const std::vector<int32_t> whole = drafts(model_.proposer(), prompt(25));
  std::vector<int32_t> vocab = scattered(500);
  vocab.insert(vocab.end(), whole.begin(), whole.end());
  std::ranges::sort(vocab);
  const auto repeated = std::ranges::unique(vocab);
  vocab.erase(repeated.begin(), repeated.end());
  ConvertedHead head(model_, {}, options_, vocab);
  EXPECT_EQ(drafts(head.proposer(), prompt(25)), whole);
}

TEST_P(DraftVocabTest, AllTokensAreTheHeadItself) {
  ConvertedHead head(model_, {}, options_, first(model_.config().vocab_size));
  EXPECT_TRUE(head.head().token_map.is_absent());
  EXPECT_EQ(head.head().lm_head.weight.address(), model_.loaded().target.lm_head.weight.address());
  for (const int64_t i : {0, 3, 25}) EXPECT_EQ(drafts(head.proposer(), prompt(i)), drafts(model_.proposer(), prompt(i)));
}

TEST_P(DraftVocabTest, LogProbabilitiesAreOverTheVocabulary) {
  ConvertedHead head(model_, {}, options_, std::vector<int32_t>{17});
  EXPECT_THAT(drafts(head.proposer(), prompt(3)), Each(17));
  EXPECT_THAT(model_.read(head.proposer().log_probabilities().rows(0, 8)), Each(testing::FloatNear(0.0F, 1e-6F)))
      << "the only token is certain";
}

TEST_P(DraftVocabTest, AcceptanceIsBelowThatOfAllTokens) {
  const TestModelOptions options{.max_seq_len = 256, .max_drafts = PrefixAcceptance::kPositions};
  ConvertedHead all(model_, {}, options);
  ConvertedHead some(model_, {}, options, scattered(200));
  std::vector<MeasuredProposer> measured{{.proposer = &all.proposer()}, {.proposer = &some.proposer()}};
  for (const int64_t i : {1, 2, 25}) {
    (void)measure_prefix_acceptance(model_.stream(), model_.runner(), measured, prompt(i),
                                    {.max_tokens = 64, .stop_token_ids = model_.config().eos_token_ids});
  }
  EXPECT_GT(measured[1].acceptance.accepted[0], 0);
  EXPECT_LT(measured[1].acceptance.accepted[0], measured[0].acceptance.accepted[0]);
}

TEST_P(DraftVocabTest, SampledDraftsNeedAllTokens) {
  MetadataBuffer round;
  Sampler sampler(*backend_, round, {.vocab_size = model_.config().vocab_size, .max_drafts = 3});
  const LoadedModel& loaded = model_.loaded();
  const auto make = [&](const std::vector<int32_t>& vocab) {
    const DraftHead head = make_draft_head(*backend_, model_.stream(), loaded.drafter(), {}, vocab);
    const MtpProposer made(
        *backend_, loaded.config, head.weights, loaded.target.embed_tokens, head.lm_head,
        {.max_seq_len = 64, .max_drafts = 3, .max_append_rows = 16, .token_map = head.token_map, .sampler = &sampler}, round);
  };
  EXPECT_NO_THROW(make({}));
  EXPECT_THROW(make(first(100)), Error);
}

/// Samples from all tokens while drafts, which are not drawn then, are some of them.
TEST_P(DraftVocabTest, AnEngineThatSamplesTakesAnyVocabulary) {
  EngineOptions options;
  options.model = data_path(GetParam()).string();
  options.backend = "cpu";
  options.draft_vocab = "100";
  options.sampling = SamplerOptions{};
  Engine engine(std::move(options));
  const std::vector<int32_t> ids = prompt(3);
  engine.load(std::ssize(ids), 16);
  EXPECT_EQ(engine.proposer()->options().sampler, nullptr);
  const GenerationOptions request{.max_tokens = 16, .num_speculative_tokens = 3, .sampling = {.temperature = 1.0F}};
  EXPECT_EQ(engine.generator().generate(ids, request).output_token_ids.size(), 16U);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, DraftVocabTest, ::testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& instance) { return instance.param == "tiny-dense" ? "TinyDense" : "TinyMoe"; });

}  // namespace
}  // namespace foretoken::test
