// Lent tensors that cannot be used are refused by name, and nothing stays allocated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "lent_model.h"

namespace foretoken::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kFc = "mtp.fc.weight";

class LentRefusalsTest : public ::testing::Test {
 protected:
  /// The message of what loading these throws.
  std::string refusal(ErrorCode code, const std::vector<LentTensor>& lent, const WeightSource* checkpoint = nullptr,
                      const std::optional<SharedWeights>& shared = std::nullopt) {
    const size_t before = backend_->allocated_bytes();
    const std::string message = error_of(code, [&] {
      static_cast<void>(load_drafter(*backend_, DrafterSource(*backend_, checkpoint, lent, shared), folder_.config()));
    });
    EXPECT_EQ(backend_->allocated_bytes(), before);
    return message;
  }
  /// All tensors of the drafter with `name` replaced.
  std::vector<LentTensor> with(const std::string& name, const Tensor& tensor) const {
    std::vector<LentTensor> changed = lent_.all();
    std::ranges::find(changed, name, &LentTensor::name)->tensor = tensor;
    return changed;
  }
  std::vector<LentTensor> without(const std::string& name) const {
    std::vector<LentTensor> changed = lent_.all();
    std::erase_if(changed, [&](const LentTensor& lent) { return lent.name == name; });
    return changed;
  }
  /// A tensor of a checkpoint that was changed so.
  std::string refusal_of(ErrorCode code, const EditableCheckpoint& checkpoint) {
    const LentTensors lent(*backend_, checkpoint, is_of_drafter);
    return refusal(code, lent.all());
  }

  std::unique_ptr<GpuBackend> backend_ = open_test_device();
  VariantFolder folder_{{.name = "", .checkpoint = "tiny-dense"}};
  Checkpoint files_{folder_.path()};
  LentTensors lent_{*backend_, folder_.checkpoint(), is_of_drafter};
  Buffer memory_ = backend_->allocate(size_t{1} << 20);
};

TEST_F(LentRefusalsTest, RowsThatAreApart) {
  const Tensor wide = memory_.tensor(DType::kBF16, {192, 400});
  EXPECT_THAT(refusal(ErrorCode::kInvalidArgument, with(kFc, wide.columns(0, 384))),
              AllOf(HasSubstr("tensor mtp.fc.weight has rows that are further apart"), HasSubstr("rows 400 elements apart")));
}

TEST_F(LentRefusalsTest, AnAddressThatIsNotAligned) {
  const Tensor shifted = memory_.tensor(DType::kBF16, {192, 384}, 8);
  EXPECT_THAT(refusal(ErrorCode::kInvalidArgument, with(kFc, shifted)),
              AllOf(HasSubstr("tensor mtp.fc.weight is not aligned"), HasSubstr("16 divides"), HasSubstr("leaves 8")));
}

TEST_F(LentRefusalsTest, NoMemory) {
  EXPECT_THAT(refusal(ErrorCode::kInvalidArgument, with(kFc, {})), HasSubstr("tensor mtp.fc.weight has no memory"));
  EXPECT_THAT(refusal(ErrorCode::kInvalidArgument, with(kFc, Tensor::shape_only(DType::kBF16, {192, 384}))),
              HasSubstr("tensor mtp.fc.weight has no memory"));
}

TEST_F(LentRefusalsTest, OneNameTwice) {
  std::vector<LentTensor> twice = lent_.all();
  twice.push_back({.name = kFc, .tensor = lent_.at(kFc)});
  EXPECT_THAT(refusal(ErrorCode::kInvalidArgument, twice), HasSubstr("tensor mtp.fc.weight is lent twice"));
}

TEST_F(LentRefusalsTest, NamesThatNoDrafterHas) {
  for (const char* name : {"model.language_model.layers.0.mlp.up_proj.weight", "model.visual.proj.weight", "fc.weight", ""}) {
    std::vector<LentTensor> more = lent_.all();
    more.push_back({.name = name, .tensor = lent_.at(kFc)});
    EXPECT_THAT(refusal(ErrorCode::kInvalidArgument, more), HasSubstr("belongs to no drafter"));
  }
  std::vector<LentTensor> more = lent_.all();
  more.push_back({.name = "mtp.fcc.weight", .tensor = lent_.at(kFc)});
  EXPECT_THAT(refusal(ErrorCode::kFormatError, more), AllOf(HasSubstr("lent by the caller"), HasSubstr("mtp.fcc.weight")));
}

TEST_F(LentRefusalsTest, AnEmbeddingUnderAnotherPrefixThanTheCheckpoints) {
  const LentTensor table{.name = "model.embed_tokens.weight", .tensor = lent_.at("model.language_model.embed_tokens.weight")};
  EXPECT_THAT(refusal(ErrorCode::kFormatError, {table}, &files_),
              AllOf(HasSubstr("lent by the caller"), HasSubstr("model.embed_tokens.weight")));
}

TEST_F(LentRefusalsTest, MissingTensors) {
  EXPECT_THAT(refusal(ErrorCode::kFormatError, without(kFc)), HasSubstr("lent tensors: tensor mtp.fc.weight is missing"));
  EXPECT_THAT(refusal(ErrorCode::kFormatError, without("model.language_model.embed_tokens.weight")),
              HasSubstr("embed_tokens.weight is missing"));
  EXPECT_THAT(refusal(ErrorCode::kFormatError, {}), HasSubstr("embed_tokens.weight is missing"));
}

TEST_F(LentRefusalsTest, NoHeadAtAll) {
  const LentTensors both(*backend_, folder_.checkpoint(), is_of_both);
  EXPECT_THAT(refusal(ErrorCode::kUnsupported, both.all()), HasSubstr("there is no drafter: config.json announces 1 MTP layer"));
}

TEST_F(LentRefusalsTest, WrongShapesAndDtypes) {
  EXPECT_THAT(refusal(ErrorCode::kFormatError, with(kFc, memory_.tensor(DType::kBF16, {192, 192}))),
              AllOf(HasSubstr(kFc), HasSubstr("[192, 384]"), HasSubstr("[192, 192]")));
  EXPECT_THAT(refusal(ErrorCode::kFormatError, with(kFc, memory_.tensor(DType::kI32, {192, 384}))),
              AllOf(HasSubstr(kFc), HasSubstr("I32")));
}

TEST_F(LentRefusalsTest, QuantisedWeightsWithoutTheirScales) {
  EditableCheckpoint checkpoint = folder_.checkpoint();
  quantise(checkpoint, "mtp.fc", Stored::kFp8Row, 1);
  const TemporaryFolder folder;
  checkpoint.write(folder.path());
  const Checkpoint files(folder.path());
  const LentTensors codes(*backend_, checkpoint, [](std::string_view name) { return name == kFc; });
  EXPECT_THAT(refusal(ErrorCode::kFormatError, codes.all(), &files), HasSubstr("quantised tensor mtp.fc.weight has no scale"))
      << "not the checkpoint's, which may belong to other codes";
}

TEST_F(LentRefusalsTest, CodesThatAreNoNumber) {
  for (const char* base : {"mtp.fc", "mtp.layers.0.mlp.down_proj"}) {
    EditableCheckpoint checkpoint = folder_.checkpoint();
    quantise(checkpoint, base, Stored::kFp8Row, 1);
    HostTensor& codes = checkpoint.tensors.at(std::string(base) + ".weight");
    codes.bytes[codes.bytes.size() - 3] = std::byte{0xff};
    EXPECT_THAT(refusal_of(ErrorCode::kFormatError, checkpoint),
                AllOf(HasSubstr(base), HasSubstr("lent by the caller, element " + std::to_string(codes.bytes.size() - 3)),
                      HasSubstr("0xff (NaN)")));
  }
}

TEST_F(LentRefusalsTest, CodesOfASingleExpertThatAreNoNumber) {
  const VariantFolder moe({.name = "", .checkpoint = "tiny-moe", .stored = Stored::kFp8Row, .splits_experts = true});
  EditableCheckpoint checkpoint = moe.checkpoint();
  const std::string name = "mtp.layers.0.mlp.experts.5.up_proj.weight";
  checkpoint.tensors.at(name).bytes[11] = std::byte{0x7f};
  const LentTensors lent(*backend_, checkpoint, is_of_drafter);
  const std::string message = error_of(ErrorCode::kFormatError, [&] {
    static_cast<void>(load_drafter(*backend_, DrafterSource(*backend_, nullptr, lent.all()), moe.config()));
  });
  EXPECT_THAT(message, AllOf(HasSubstr(name), HasSubstr("element 11"), HasSubstr("0x7f (NaN)")));
}

TEST_F(LentRefusalsTest, ScalesThatNoWeightCanHave) {
  EditableCheckpoint checkpoint = folder_.checkpoint();
  quantise(checkpoint, "mtp.fc", Stored::kFp8RowFlat, 1);
  const uint32_t infinity = 0x7f800000U;
  std::memcpy(checkpoint.tensors.at("mtp.fc.weight_scale").bytes.data() + 4, &infinity, sizeof(infinity));
  EXPECT_THAT(refusal_of(ErrorCode::kFormatError, checkpoint),
              AllOf(HasSubstr("mtp.fc.weight_scale"), HasSubstr("element 1"), HasSubstr("a finite scale")));

  checkpoint = folder_.checkpoint();
  for (const char* scale : {"k_scale", "v_scale"}) {
    checkpoint.tensors[std::string("mtp.layers.0.self_attn.") + scale] = zeros(DType::kF32, {1});
  }
  EXPECT_THAT(refusal_of(ErrorCode::kFormatError, checkpoint),
              AllOf(HasSubstr("mtp.layers.0.self_attn.k_scale"), HasSubstr("a positive scale")));
}

TEST_F(LentRefusalsTest, EmbeddingAndLmHeadTwice) {
  const Tensor table = lent_.at("model.language_model.embed_tokens.weight");
  const SharedWeights shared{.embed_tokens = table, .lm_head = tied_lm_head(table)};
  EXPECT_THAT(refusal(ErrorCode::kInvalidArgument, lent_.all(), nullptr, shared),
              HasSubstr("is lent besides those of a loaded target"));
}

TEST_F(LentRefusalsTest, SharedWeightsOfAnotherModel) {
  const LentTensors head(*backend_, folder_.checkpoint(), is_of_head);
  const Tensor table = lent_.at("model.language_model.embed_tokens.weight");
  SharedWeights shared{.embed_tokens = table, .lm_head = tied_lm_head(table)};
  shared.embed_tokens = table.rows(0, 100);
  EXPECT_THAT(refusal(ErrorCode::kInvalidArgument, head.all(), nullptr, shared),
              AllOf(HasSubstr("embed_tokens"), HasSubstr("[4096, 192]"), HasSubstr("[100, 192]")));
  shared.embed_tokens = {};
  EXPECT_THAT(refusal(ErrorCode::kInvalidArgument, head.all(), nullptr, shared),
              AllOf(HasSubstr("embed_tokens"), HasSubstr("nothing")));
  shared = {.embed_tokens = table, .lm_head = tied_lm_head(table.rows(0, 100))};
  EXPECT_THAT(refusal(ErrorCode::kInvalidArgument, head.all(), nullptr, shared), HasSubstr("lm_head"));
  shared.lm_head = tied_lm_head(table);
  shared.lm_head.format = WeightFormat::kFp8Row;
  EXPECT_THAT(refusal(ErrorCode::kInvalidArgument, head.all(), nullptr, shared), HasSubstr("must hold"));
}

TEST_F(LentRefusalsTest, AVocabularyThatIsNone) {
  const std::unique_ptr<Stream> stream = backend_->create_stream();
  const DrafterSource source(*backend_, nullptr, lent_.all());
  const size_t before = backend_->allocated_bytes();
  for (const std::vector<int32_t>& vocab : {std::vector<int32_t>{3, 2}, {0, 4096}, {-1, 5}, std::vector<int32_t>(4096, 7)}) {
    static_cast<void>(error_of(ErrorCode::kInvalidArgument, [&] {
      static_cast<void>(load_drafter_parts(*backend_, *stream, source, folder_.config(), {.vocab = vocab}));
    }));
    EXPECT_EQ(backend_->allocated_bytes(), before);
  }
}

}  // namespace
}  // namespace foretoken::test
