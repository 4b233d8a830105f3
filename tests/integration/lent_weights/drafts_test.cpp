// A drafter made from lent weights drafts with the bits of one that was loaded with its target.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "lent_model.h"

namespace foretoken::test {
namespace {

constexpr Variant kVariants[] = {
    {.name = "Dense", .checkpoint = "tiny-dense"},
    {.name = "Moe", .checkpoint = "tiny-moe"},
    {.name = "MoePerExpert", .checkpoint = "tiny-moe", .splits_experts = true},
    {.name = "DenseFp8Tensor", .checkpoint = "tiny-dense", .stored = Stored::kFp8Tensor},
    {.name = "DenseFp8RowFlat", .checkpoint = "tiny-dense", .stored = Stored::kFp8RowFlat},
    {.name = "DenseNvfp4", .checkpoint = "tiny-dense", .stored = Stored::kNvfp4ModelOpt},
    {.name = "MoeFp8Tensor", .checkpoint = "tiny-moe", .stored = Stored::kFp8Tensor, .splits_experts = true},
    {.name = "MoeFp8Row", .checkpoint = "tiny-moe", .stored = Stored::kFp8Row, .splits_experts = true},
    {.name = "MoeFp8Block", .checkpoint = "tiny-moe", .stored = Stored::kFp8BlockBf16},
    {.name = "MoeNvfp4", .checkpoint = "tiny-moe", .stored = Stored::kNvfp4ModelOpt, .splits_experts = true},
    {.name = "MoeNvfp4Packed", .checkpoint = "tiny-moe", .stored = Stored::kNvfp4Packed, .splits_experts = true},
};

class LentDraftsTest : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    if (const auto storable = backend_->capabilities().weight_format(folder_.format()).storable; !storable) {
      GTEST_SKIP() << storable.reason();
    }
    model_.emplace(*backend_, folder_.path().string());
  }

  [[nodiscard]] DrafterParts load(const DrafterSource& source, const DrafterOptions& options = kAsStored) {
    return load_drafter_parts(*backend_, model_->stream(), source, folder_.config(), options);
  }
  void expect_the_same(const DraftHead& head) { EXPECT_EQ(drafted_by(*model_, head), drafted_by(*model_, model_->head())); }

  static inline const DrafterOptions kAsStored{.precision = {.lm_head = {.choice = DraftLmHead::Choice::kCheckpoint}}};
  std::unique_ptr<GpuBackend> backend_ = open_test_device();
  VariantFolder folder_{GetParam()};
  Checkpoint files_{folder_.path()};
  std::optional<BatchModel> model_;
};

TEST_P(LentDraftsTest, FromAFolder) {
  const DrafterSource source(*backend_, &files_, {});
  const DrafterParts parts = load(source);
  expect_the_same(parts.head);
  EXPECT_EQ(parts.lent_bytes + parts.copied_bytes, 0U);
}

TEST_P(LentDraftsTest, FromLentTensorsAlone) {
  const LentTensors lent(*backend_, folder_.checkpoint(), is_of_drafter);
  const DrafterSource source(*backend_, nullptr, lent.all());
  const DrafterParts parts = load(source);
  EXPECT_EQ(parts.read_bytes, 0U);
  expect_the_same(parts.head);
  const DraftedText text = drafted_by(*model_, parts.head);
  std::set<int32_t> different;
  for (const auto& block : text.blocks) different.insert(block.begin() + 1, block.end());
  EXPECT_GT(different.size(), 3U) << "the drafts tell weights apart";
  EXPECT_EQ(drafted_by(*model_, parts.head, DType::kE4M3), drafted_by(*model_, model_->head(), DType::kE4M3));
}

TEST_P(LentDraftsTest, FromAFolderAndLentEmbeddingAndLmHead) {
  const LentTensors lent(*backend_, folder_.checkpoint(), is_of_both);
  const DrafterSource source(*backend_, &files_, lent.all());
  const DrafterParts parts = load(source);
  EXPECT_EQ(parts.read_bytes, folder_.bytes(is_of_head) - folder_.bytes([](std::string_view name) {
    return is_of_head(name) && name.find("input_") != std::string_view::npos && name.ends_with("scale");
  }));
  expect_the_same(parts.head);
}

TEST_P(LentDraftsTest, FromAFolderAndALentHead) {
  const LentTensors lent(*backend_, folder_.checkpoint(), is_of_head);
  const DrafterSource source(*backend_, &files_, lent.all());
  expect_the_same(load(source).head);
}

/// A target that was loaded without its head, as packed or quantised as it may be.
TEST_P(LentDraftsTest, WithTheEmbeddingAndLmHeadOfALoadedTarget) {
  const LoadedModel target = load_model(*backend_, files_, folder_.config(), {.load_mtp = false});
  const DrafterSource source(*backend_, &files_, {}, target.shared());
  const DrafterParts parts = load(source);
  EXPECT_EQ(parts.head.embed_tokens.address(), target.target.embed_tokens.address());
  EXPECT_EQ(parts.head.lm_head.weight.address(), target.target.lm_head.weight.address());
  EXPECT_EQ(parts.head.lm_head.scale.address(), target.target.lm_head.scale.address());
  expect_the_same(parts.head);

  const LentTensors lent(*backend_, folder_.checkpoint(), is_of_head);
  const DrafterSource nothing_read(*backend_, nullptr, lent.all(), target.shared());
  expect_the_same(load(nothing_read).head);
}

/// Copies in other formats have the bits of copies of loaded weights.
TEST_P(LentDraftsTest, InOtherFormats) {
  const LentTensors lent(*backend_, folder_.checkpoint(), is_of_drafter);
  const DrafterSource source(*backend_, nullptr, lent.all());
  for (const WeightFormat format : {WeightFormat::kBF16, WeightFormat::kFp8Block, WeightFormat::kNvfp4}) {
    if (!backend_->capabilities().weight_format(format).storable) continue;
    const DraftPrecision precision{
        .linears = format, .fc = format, .lm_head = {.choice = DraftLmHead::Choice::kCopy, .format = format}};
    const DraftHead expected = make_draft_head(*backend_, model_->stream(), model_->loaded().drafter(),
                                               {.linears = format, .fc = format, .experts = format, .lm_head = format});
    const DrafterParts parts = load(source, {.precision = precision});
    EXPECT_EQ(parts.head.lm_head.format, format);
    EXPECT_EQ(drafted_by(*model_, parts.head), drafted_by(*model_, expected)) << to_string(format);
  }
}

TEST_P(LentDraftsTest, FromSomeTokens) {
  const LentTensors lent(*backend_, folder_.checkpoint(), is_of_drafter);
  const DrafterSource source(*backend_, nullptr, lent.all());
  std::vector<int32_t> vocab;
  for (int32_t id = 5; id < 4000; id += 3) vocab.push_back(id);
  const DraftHead expected = make_draft_head(*backend_, model_->stream(), model_->loaded().drafter(), {}, vocab);
  const DrafterParts parts = load(source, {.precision = kAsStored.precision, .vocab = vocab});
  const DraftedText text = drafted_by(*model_, parts.head);
  EXPECT_EQ(text, drafted_by(*model_, expected));
  for (const auto& block : text.blocks) {
    for (size_t i = 1; i < block.size(); ++i) EXPECT_EQ(block[i] % 3, 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, LentDraftsTest, ::testing::ValuesIn(kVariants),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace foretoken::test
