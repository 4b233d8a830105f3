// What is read, what is used where it lies, and what is copied.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "lent_model.h"
#include "models/weight_converter.h"

namespace foretoken::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

/// Counts what is read of a source.
class CountingSource final : public WeightSource {
 public:
  explicit CountingSource(const WeightSource& source) : source_(source) {}

  [[nodiscard]] const std::string& name() const override { return source_.name(); }
  [[nodiscard]] std::span<const SourceTensor> tensors() const override { return source_.tensors(); }
  [[nodiscard]] std::optional<size_t> find(std::string_view tensor_name) const override { return source_.find(tensor_name); }
  [[nodiscard]] std::span<const std::byte> read(size_t index, uint64_t begin, size_t count,
                                                std::vector<std::byte>& scratch) const override {
    read_bytes[tensors()[index].name] += count;
    return source_.read(index, begin, count, scratch);
  }
  void release(std::span<const std::byte> bytes) const override { source_.release(bytes); }
  [[nodiscard]] std::optional<RandomRecipe> recipe(size_t index) const override { return source_.recipe(index); }

  mutable std::map<std::string, uint64_t> read_bytes;

 private:
  const WeightSource& source_;
};

uint64_t bytes_of(const std::vector<Buffer>& buffers) {
  uint64_t bytes = 0;
  for (const Buffer& buffer : buffers) bytes += buffer.bytes();
  return bytes;
}

class LentLoadingTest : public ::testing::Test {
 protected:
  static constexpr Variant kDense{.name = "", .checkpoint = "tiny-dense"};
  static constexpr Variant kMoe{.name = "", .checkpoint = "tiny-moe"};

  std::unique_ptr<GpuBackend> backend_ = open_test_device();
  std::unique_ptr<Stream> stream_ = backend_->create_stream();
};

TEST_F(LentLoadingTest, ADrafterAloneReadsNothingOfItsTarget) {
  for (const Variant& variant : {kDense, kMoe}) {
    const VariantFolder folder(variant);
    const Checkpoint files(folder.path());
    const CountingSource counted(files);
    const size_t before = backend_->allocated_bytes();
    std::vector<std::pair<uint64_t, uint64_t>> progress;
    const LoadedDrafter drafter = load_drafter(*backend_, DrafterSource(*backend_, &counted, {}), folder.config(),
                                               [&](uint64_t done, uint64_t total) { progress.emplace_back(done, total); });
    const uint64_t expected = folder.bytes(is_of_drafter);
    EXPECT_EQ(drafter.read_bytes, expected);
    uint64_t read = 0;
    for (const auto& [name, bytes] : counted.read_bytes) {
      EXPECT_TRUE(is_of_drafter(name)) << name;
      read += bytes;
    }
    EXPECT_EQ(read, expected);
    EXPECT_EQ(progress.front(), std::pair(uint64_t{0}, expected));
    EXPECT_EQ(progress.back(), std::pair(expected, expected));
    EXPECT_EQ(backend_->allocated_bytes() - before, bytes_of(drafter.buffers));
    EXPECT_TRUE(drafter.notes.empty());
  }
}

/// A folder that holds the draft head, the embedding and the LM head only.
TEST_F(LentLoadingTest, TheTargetNeedNotBeThere) {
  EditableCheckpoint checkpoint(bundled("tiny-moe"));
  checkpoint.erase_prefix("model.language_model.layers.");
  checkpoint.erase_prefix("model.language_model.norm.");
  const TemporaryFolder folder;
  checkpoint.write(folder.path());
  const Checkpoint files(folder.path());
  const LoadedDrafter drafter = load_drafter(*backend_, DrafterSource(*backend_, &files, {}), load_model_config(folder.path()));
  EXPECT_TRUE(drafter.weights.mtp.layer.moe.has_value());
}

TEST_F(LentLoadingTest, LentMatricesAreUsedWhereTheyLie) {
  for (const Variant& variant : {kDense, kMoe}) {
    const VariantFolder folder(variant);
    const LentTensors lent(*backend_, folder.checkpoint(), is_of_drafter);
    const size_t before = backend_->allocated_bytes();
    const LoadedDrafter drafter = load_drafter(*backend_, DrafterSource(*backend_, nullptr, lent.all()), folder.config());
    const auto is_norm = [](std::string_view name) { return is_of_head(name) && name.find("norm") != std::string_view::npos; };
    const auto is_matrix = [&](std::string_view name) { return is_of_drafter(name) && !is_norm(name); };
    EXPECT_EQ(drafter.lent_bytes, folder.bytes(is_matrix));
    EXPECT_EQ(drafter.copied_bytes, 2 * folder.bytes(is_norm)) << "BF16 to F32";
    EXPECT_EQ(drafter.read_bytes, 0U);
    EXPECT_EQ(backend_->allocated_bytes() - before, drafter.copied_bytes);
    EXPECT_EQ(drafter.notes.size(), 7U) << "the norms";
    EXPECT_THAT(drafter.notes, Contains("a copy of lent mtp.norm.weight in F32 is used, 768 bytes"));

    const auto expect_at = [&](const Tensor& used, const std::string& name) {
      EXPECT_EQ(used.address(), lent.at(name).address()) << name;
    };
    const MtpWeights& mtp = drafter.weights.mtp;
    expect_at(drafter.weights.shared.embed_tokens, "model.language_model.embed_tokens.weight");
    const bool is_tied = folder.config().tie_word_embeddings;
    expect_at(drafter.weights.shared.lm_head.weight, is_tied ? "model.language_model.embed_tokens.weight" : "lm_head.weight");
    expect_at(mtp.fc.weight, "mtp.fc.weight");
    expect_at(mtp.layer.self_attn->q_proj.weight, "mtp.layers.0.self_attn.q_proj.weight");
    if (mtp.layer.moe) expect_at(mtp.layer.moe->gate_up_proj.weight, "mtp.layers.0.mlp.experts.gate_up_proj");
  }
}

/// Norms of the dtype that kernels read, scales of a KV cache and quantised weights with their scales need no copy either.
TEST_F(LentLoadingTest, WhatNeedsNoConversionIsNotCopied) {
  EditableCheckpoint checkpoint(bundled("tiny-dense"));
  for (auto& [name, tensor] : checkpoint.tensors) {
    if (is_of_head(name) && name.find("norm") != std::string::npos) tensor = random_scales(DType::kF32, tensor.shape, 3);
  }
  const std::string attention = "mtp.layers.0.self_attn.";
  checkpoint.tensors[attention + "k_proj.k_scale"] = random_scales(DType::kF32, {}, 1);
  checkpoint.tensors[attention + "v_proj.v_scale"] = random_scales(DType::kF32, {1}, 2);
  quantise(checkpoint, "mtp.fc", Stored::kFp8Row, 10);
  quantise(checkpoint, attention + "o_proj", Stored::kFp8BlockBf16, 20);
  quantise(checkpoint, "mtp.layers.0.mlp.down_proj", Stored::kFp8Tensor, 30);
  quantise(checkpoint, attention + "q_proj", Stored::kNvfp4ModelOpt, 40);
  const TemporaryFolder folder;
  checkpoint.write(folder.path());
  if (!backend_->capabilities().weight_format(WeightFormat::kNvfp4).storable) GTEST_SKIP();

  const LentTensors lent(*backend_, checkpoint, is_of_drafter);
  const size_t before = backend_->allocated_bytes();
  const LoadedDrafter drafter =
      load_drafter(*backend_, DrafterSource(*backend_, nullptr, lent.all()), load_model_config(folder.path()));
  EXPECT_EQ(backend_->allocated_bytes(), before);
  EXPECT_EQ(drafter.copied_bytes, 0U);
  EXPECT_TRUE(drafter.buffers.empty());
  EXPECT_EQ(drafter.weights.mtp.layer.self_attn->k_scale.address(), lent.at(attention + "k_proj.k_scale").address());
  EXPECT_EQ(drafter.weights.mtp.fc.scale.address(), lent.at("mtp.fc.weight_scale").address());
  EXPECT_EQ(drafter.weights.mtp.layer.self_attn->q_proj.global_scale.address(),
            lent.at(attention + "q_proj.weight_scale_2").address());
  // Scales of activations, which this library leaves unquantised, are there for nothing.
  EXPECT_THAT(drafter.notes, ::testing::UnorderedElementsAre("lent mtp.fc.input_scale is not used",
                                                             "lent mtp.layers.0.mlp.down_proj.input_scale is not used",
                                                             "lent " + attention + "o_proj.input_scale is not used",
                                                             "lent " + attention + "q_proj.input_scale is not used"));
}

TEST_F(LentLoadingTest, TensorsOfSingleExpertsAreCopiedIntoStacksAndThatIsSaid) {
  const VariantFolder folder({.name = "", .checkpoint = "tiny-moe", .splits_experts = true});
  const LentTensors lent(*backend_, folder.checkpoint(), is_of_drafter);
  const LoadedDrafter drafter = load_drafter(*backend_, DrafterSource(*backend_, nullptr, lent.all()), folder.config());
  const std::string first = "mtp.layers.0.mlp.experts.0.";
  EXPECT_THAT(drafter.notes, Contains("a copy of lent " + first + "down_proj.weight and 7 others, put together, is used, " +
                                      std::to_string(8 * 192 * 96 * 2) + " bytes"));
  EXPECT_THAT(drafter.notes, Contains(HasSubstr("gate_proj.weight and 15 others, put together")));
}

TEST_F(LentLoadingTest, ReciprocalScalesAreCopied) {
  if (!backend_->capabilities().weight_format(WeightFormat::kNvfp4).storable) GTEST_SKIP();
  const VariantFolder folder({.name = "", .checkpoint = "tiny-moe", .stored = Stored::kNvfp4Packed});
  const LentTensors lent(*backend_, folder.checkpoint(), is_of_drafter);
  const LoadedDrafter drafter = load_drafter(*backend_, DrafterSource(*backend_, nullptr, lent.all()), folder.config());
  EXPECT_EQ(drafter.weights.shared.lm_head.weight.address(), lent.at("lm_head.weight_packed").address());
  EXPECT_EQ(drafter.weights.shared.lm_head.scale.address(), lent.at("lm_head.weight_scale").address());
  EXPECT_THAT(drafter.notes, Contains("a copy of lent lm_head.weight_global_scale, its reciprocal, is used, 4 bytes"));
}

/// Whatever the checkpoint has of a lent weight is left out, scales and other layouts of experts too.
TEST_F(LentLoadingTest, ALentWeightReplacesAllOfTheCheckpointsOwn) {
  EditableCheckpoint stored(bundled("tiny-moe"));
  quantise(stored, "mtp.fc", Stored::kFp8BlockF32, 10);
  quantise(stored, "lm_head", Stored::kFp8Row, 20);
  const TemporaryFolder folder;
  stored.write(folder.path());
  const Checkpoint files(folder.path());
  EditableCheckpoint plain(bundled("tiny-moe"));
  plain.split_experts();
  const LentTensors lent(*backend_, plain, [](std::string_view name) {
    return name.starts_with("mtp.fc.") || name.starts_with("lm_head.") || name.starts_with("mtp.layers.0.mlp.experts.");
  });
  const LoadedDrafter drafter =
      load_drafter(*backend_, DrafterSource(*backend_, &files, lent.all()), load_model_config(folder.path()));
  EXPECT_EQ(drafter.weights.mtp.fc.format, WeightFormat::kBF16);
  EXPECT_EQ(drafter.weights.mtp.fc.weight.address(), lent.at("mtp.fc.weight").address());
  EXPECT_EQ(drafter.weights.shared.lm_head.weight.address(), lent.at("lm_head.weight").address());
  EXPECT_THAT(drafter.notes, Contains(HasSubstr("experts.0.down_proj.weight and 7 others")));
}

class LentHeadTest : public LentLoadingTest {
 protected:
  [[nodiscard]] DrafterParts load(const DrafterSource& source, const DraftLmHead& lm_head = {},
                                  std::span<const int32_t> vocab = {}) {
    return load_drafter_parts(*backend_, *stream_, source, folder_.config(), {.precision = {.lm_head = lm_head}, .vocab = vocab});
  }

  VariantFolder folder_{kMoe};
  Checkpoint files_{folder_.path()};
  const DraftLmHead fp8_{.choice = DraftLmHead::Choice::kCopy, .format = WeightFormat::kFp8Block};
};

TEST_F(LentHeadTest, ACopyOfALentLmHeadIsMadeOnlyWhenAskedFor) {
  const LentTensors lent(*backend_, folder_.checkpoint(), is_of_drafter);
  const DrafterSource source(*backend_, nullptr, lent.all());
  const size_t before = backend_->allocated_bytes();
  {
    const DrafterParts parts = load(source);
    EXPECT_EQ(parts.head.lm_head.weight.address(), lent.at("lm_head.weight").address());
    EXPECT_THAT(parts.notes, Contains("drafts use the caller's LM head, of which no copy was asked for"));
    EXPECT_EQ(backend_->allocated_bytes() - before, parts.weight_bytes());
    EXPECT_EQ(parts.weight_bytes(), parts.copied_bytes);
  }
  {
    const DrafterParts parts = load(source, fp8_);
    EXPECT_EQ(parts.head.lm_head.format, WeightFormat::kFp8Block);
    EXPECT_EQ(backend_->allocated_bytes() - before, parts.weight_bytes());
    EXPECT_EQ(parts.weight_bytes(), parts.copied_bytes + converted_bytes(WeightFormat::kFp8Block, {4096, 192}));
  }
  EXPECT_EQ(backend_->allocated_bytes(), before);
}

/// What was read from files and is then converted does not stay beside the copy; the embedding does, also when it is the LM head.
TEST_F(LentHeadTest, OriginalsOfCopiesDoNotStay) {
  const DrafterSource source(*backend_, &files_, {});
  const uint64_t lm_head = uint64_t{4096} * 192 * 2;
  const uint64_t whole = load(source, {.choice = DraftLmHead::Choice::kCheckpoint}).weight_bytes();
  const uint64_t copy = converted_bytes(WeightFormat::kFp8Block, {4096, 192});
  EXPECT_EQ(load(source, fp8_).weight_bytes(), whole - lm_head + copy);
  const std::vector<int32_t> vocab{1, 5, 9};
  const DrafterParts few = load(source, {.choice = DraftLmHead::Choice::kCheckpoint}, vocab);
  EXPECT_LT(few.weight_bytes(), whole - lm_head + 4096);

  const VariantFolder tied(kDense);
  const Checkpoint tied_files(tied.path());
  const DrafterSource tied_source(*backend_, &tied_files, {});
  const size_t before = backend_->allocated_bytes();
  const DrafterParts parts = load_drafter_parts(*backend_, *stream_, tied_source, tied.config(),
                                                {.precision = {.linears = WeightFormat::kFp8Block, .lm_head = fp8_}});
  EXPECT_EQ(backend_->allocated_bytes() - before, parts.weight_bytes());
  std::vector<std::byte> row(192 * 2);
  stream_->download(parts.head.embed_tokens.rows(77, 1).view(), row);
  const HostTensor& table = tied.checkpoint().tensors.at("model.language_model.embed_tokens.weight");
  EXPECT_EQ(row, table.rows(77, 1).bytes);
}

}  // namespace
}  // namespace foretoken::test
