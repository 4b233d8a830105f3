#include "models/weight_map.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/unit/checkpoint/loaded_weights.h"

namespace foretoken {
namespace {

using test::EditableCheckpoint;
using test::error_of;
using test::zeros;
using testing::AllOf;
using testing::HasSubstr;

const std::string kQuery = "mtp.layers.0.self_attn.q_proj";  // [512, 192]
const std::string kFc = "mtp.fc";                            // [192, 384]

/// tiny-dense whose `base` is replaced by tensors named by suffix.
EditableCheckpoint with_linear(const std::string& base, const std::map<std::string, test::HostTensor>& parts) {
  EditableCheckpoint checkpoint(test::bundled("tiny-dense"));
  checkpoint.tensors.erase(base + ".weight");
  for (const auto& [suffix, tensor] : parts) checkpoint.tensors[base + suffix] = tensor;
  return checkpoint;
}

/// Plans a checkpoint and calls `look` with the plan.
template <class Look>
void plan(const EditableCheckpoint& checkpoint, Look&& look) {
  const test::TemporaryFolder folder;
  checkpoint.write(folder.path());
  const Checkpoint source(folder.path());
  look(*plan_weights(source, load_model_config(folder.path())));
}

std::string plan_error(ErrorCode code, const EditableCheckpoint& checkpoint) {
  return error_of(code, [&] { plan(checkpoint, [](const WeightPlan&) {}); });
}

const PlannedTensor& planned(const WeightPlan& weights, const Tensor& slot) {
  return *std::ranges::find(weights.tensors, &slot, &PlannedTensor::slot);
}

struct QuantisedCase {
  const char* name;
  std::map<std::string, test::HostTensor> parts;
  WeightFormat format;
  DType dtype;
  Shape scale_shape;
};

class Quantised : public testing::TestWithParam<QuantisedCase> {};

TEST_P(Quantised, FormatComesFromDtypeAndScales) {
  const QuantisedCase& c = GetParam();
  plan(with_linear(kQuery, c.parts), [&](const WeightPlan& weights) {
    const LinearWeight& query = weights.mtp->layer.self_attn->q_proj;
    EXPECT_EQ(to_string(query.format), to_string(c.format));
    EXPECT_EQ(planned(weights, query.weight).dtype, c.dtype);
    EXPECT_EQ(planned(weights, query.weight).shape, Shape({512, 192}));
    EXPECT_EQ(planned(weights, query.scale).shape, c.scale_shape);
    EXPECT_TRUE(planned(weights, query.scale).is_scale);
    EXPECT_EQ(std::ranges::count(weights.tensors, &query.global_scale, &PlannedTensor::slot), c.format == WeightFormat::kNvfp4);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Formats, Quantised,
    testing::Values(
        QuantisedCase{"BlockF32",
                      {{".weight", zeros(DType::kE4M3, {512, 192})}, {".weight_scale_inv", zeros(DType::kF32, {4, 2})}},
                      WeightFormat::kFp8Block,
                      DType::kE4M3,
                      {4, 2}},
        QuantisedCase{"BlockBf16",
                      {{".weight", zeros(DType::kE4M3, {512, 192})}, {".weight_scale_inv", zeros(DType::kBF16, {4, 2})}},
                      WeightFormat::kFp8Block,
                      DType::kE4M3,
                      {4, 2}},
        QuantisedCase{"BlockUnderAnotherName",
                      {{".weight", zeros(DType::kE4M3, {512, 192})}, {".weight_scale", zeros(DType::kF32, {4, 2})}},
                      WeightFormat::kFp8Block,
                      DType::kE4M3,
                      {4, 2}},
        QuantisedCase{"Row",
                      {{".weight", zeros(DType::kE4M3, {512, 192})}, {".weight_scale", zeros(DType::kF32, {512, 1})}},
                      WeightFormat::kFp8Row,
                      DType::kE4M3,
                      {512}},
        QuantisedCase{"WholeTensor",
                      {{".weight", zeros(DType::kE4M3, {512, 192})},
                       {".weight_scale", zeros(DType::kF32, {})},
                       {".input_scale", zeros(DType::kF32, {})}},
                      WeightFormat::kFp8Row,
                      DType::kE4M3,
                      {1}},
        QuantisedCase{"ModelOptNvfp4",
                      {{".weight", zeros(DType::kU8, {512, 96})},
                       {".weight_scale", zeros(DType::kE4M3, {512, 12})},
                       {".weight_scale_2", zeros(DType::kF32, {})},
                       {".input_scale", zeros(DType::kF32, {})}},
                      WeightFormat::kNvfp4,
                      DType::kE2M1,
                      {512, 12}},
        QuantisedCase{"CompressedTensorsNvfp4",
                      {{".weight_packed", zeros(DType::kU8, {512, 96})},
                       {".weight_scale", zeros(DType::kE4M3, {512, 12})},
                       {".weight_global_scale", zeros(DType::kF32, {1})}},
                      WeightFormat::kNvfp4,
                      DType::kE2M1,
                      {512, 12}}),
    [](const auto& param) { return param.param.name; });

TEST(WeightMap, GlobalScaleOfCompressedTensorsIsInverted) {
  const EditableCheckpoint checkpoint = with_linear(kQuery, {{".weight_packed", zeros(DType::kU8, {512, 96})},
                                                             {".weight_scale", zeros(DType::kE4M3, {512, 12})},
                                                             {".weight_global_scale", zeros(DType::kF32, {1})}});
  plan(checkpoint, [](const WeightPlan& weights) {
    EXPECT_EQ(planned(weights, weights.mtp->layer.self_attn->q_proj.global_scale).conversion, Conversion::kReciprocal);
  });
}

TEST(WeightMap, FormatsMayDifferFromTensorToTensor) {
  const EditableCheckpoint checkpoint =
      with_linear("model.language_model.layers.3.self_attn.q_proj", {{".weight", zeros(DType::kU8, {512, 96})},
                                                                     {".weight_scale", zeros(DType::kE4M3, {512, 12})},
                                                                     {".weight_scale_2", zeros(DType::kF32, {})}});
  plan(checkpoint, [](const WeightPlan& weights) {
    EXPECT_EQ(weights.target.layers[3].self_attn->q_proj.format, WeightFormat::kNvfp4);
    EXPECT_EQ(weights.target.layers[3].self_attn->k_proj.format, WeightFormat::kBF16);
    EXPECT_EQ(weights.mtp->fc.format, WeightFormat::kBF16);
  });
}

TEST(WeightMap, IncompleteOrMisshapenScales) {
  const test::HostTensor fp8 = zeros(DType::kE4M3, {192, 384});
  const test::HostTensor packed = zeros(DType::kU8, {192, 192});
  const test::HostTensor groups = zeros(DType::kE4M3, {192, 24});
  const auto message = [](const std::map<std::string, test::HostTensor>& parts) {
    return plan_error(ErrorCode::kFormatError, with_linear(kFc, parts));
  };
  EXPECT_THAT(message({{".weight", fp8}}), AllOf(HasSubstr("mtp.fc.weight"), HasSubstr("no scale")));
  EXPECT_THAT(message({{".weight", packed}, {".weight_scale", groups}}), HasSubstr("mtp.fc.weight_scale_2"));
  EXPECT_THAT(message({{".weight_packed", packed}, {".weight_scale", groups}}), HasSubstr("mtp.fc.weight_global_scale"));
  EXPECT_THAT(message({{".weight", fp8}, {".weight_scale", zeros(DType::kF32, {191, 1})}}), HasSubstr("got F32 [191, 1]"));
  EXPECT_THAT(message({{".weight", fp8}, {".weight_scale", groups}}), HasSubstr("mtp.fc.weight_scale"));
  EXPECT_THAT(
      message({{".weight", fp8}, {".weight_scale_inv", zeros(DType::kF32, {2, 3})}, {".weight_scale_2", zeros(DType::kF32, {})}}),
      AllOf(HasSubstr("mtp.fc.weight_scale_2"), HasSubstr("scale without a quantised weight")));
}

// Field report 7, as far as names go: per-expert FP8 with block scales is one stack.
TEST(WeightMap, PerExpertBlockScalesAreStacked) {
  EditableCheckpoint checkpoint(test::bundled("tiny-moe"));
  checkpoint.split_experts();
  const std::string prefix = "mtp.layers.0.mlp.experts.";
  for (int expert = 0; expert < 8; ++expert) {
    for (const char* part : {".gate_proj", ".up_proj", ".down_proj"}) {
      const std::string base = prefix + std::to_string(expert) + part;
      const Shape shape = checkpoint.tensors.at(base + ".weight").shape;
      checkpoint.tensors[base + ".weight"] = zeros(DType::kE4M3, shape);
      checkpoint.tensors[base + ".weight_scale_inv"] = zeros(DType::kBF16, {(shape[0] + 127) / 128, (shape[1] + 127) / 128});
    }
  }
  plan(checkpoint, [](const WeightPlan& weights) {
    const MoeWeights& moe = *weights.mtp->layer.moe;
    EXPECT_EQ(moe.down_proj.format, WeightFormat::kFp8Block);
    EXPECT_EQ(planned(weights, moe.gate_up_proj.weight).shape, Shape({8, 192, 192}));
    EXPECT_EQ(moe.gate_up_proj.block_rows, 32) << "the up rows begin at row 96 of 192";
    EXPECT_EQ(planned(weights, moe.gate_up_proj.scale).shape, Shape({8, 6, 2}));
    EXPECT_EQ(moe.down_proj.block_rows, 128);
    EXPECT_EQ(planned(weights, moe.down_proj.scale).shape, Shape({8, 2, 1}));
  });
}

}  // namespace
}  // namespace foretoken
