#include "models/memory_report.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/checkpoint.h"
#include "models/synth.h"
#include "tests/unit/checkpoint/loaded_weights.h"
#include "tests/unit/checkpoint/quantised_checkpoint.h"

namespace foretoken {
namespace {

MemoryReport synth_report(const char* model) {
  const SynthSource source({.model = model});
  return memory_report(source, source.config());
}

uint64_t draft_parameters(const MemoryReport& report) {
  uint64_t parameters = 0;
  for (const PartReport& part : report.parts) parameters += part.draft ? part.num_parameters : 0;
  return parameters;
}

TEST(MemoryReport, TinyDenseAddsUpToItsFile) {
  const auto folder = test::bundled("tiny-dense");
  const Checkpoint source(folder);
  const MemoryReport report = memory_report(source, load_model_config(folder));
  uint64_t stored = 0;
  for (const SourceTensor& tensor : source.tensors()) stored += tensor.bytes;
  EXPECT_GE(report.target_bytes + report.draft_bytes, stored) << "norms and the convolution grow to F32";
  EXPECT_LT(report.target_bytes + report.draft_bytes, stored * 11 / 10);
  EXPECT_EQ(report.target_step_bytes, report.target_bytes) << "dense and tied: a step reads everything";
  EXPECT_EQ(report.draft_step_bytes, report.draft_bytes + 4096 * 192 * 2);
}

// The published counts of formats: millions of parameters stored, and bytes per step from them.
TEST(MemoryReport, ReleasedShapes) {
  EXPECT_EQ(draft_parameters(synth_report("qwen3.5-27b")) / 1'000'000, 424U);
  EXPECT_EQ(draft_parameters(synth_report("qwen3.5-35b-a3b")) / 1'000'000, 844U);
  const MemoryReport moe = synth_report("qwen3.5-35b-a3b");
  const uint64_t lm_head = 248320ULL * 2048 * 2;
  EXPECT_NEAR(static_cast<double>(moe.draft_step_bytes - lm_head) / 2e6, 65.0, 1.0) << "8 of 256 experts are read";
  const MemoryReport next = synth_report("qwen3-next-80b-a3b");
  EXPECT_NEAR(static_cast<double>(draft_parameters(next)) / 1e6, 1650.0, 10.0);
}

TEST(MemoryReport, CachesOfReleasedShapes) {
  const ModelConfig config = synth_config({.model = "qwen3.5-27b"});
  EXPECT_EQ(draft_kv_bytes_per_token(config, DType::kBF16), 4096U);
  EXPECT_EQ(draft_kv_bytes_per_token(config, DType::kE4M3), 2048U);
  EXPECT_EQ(target_kv_bytes_per_token(config, DType::kF32), 16U * 8192U);
  EXPECT_NEAR(static_cast<double>(recurrent_state_bytes(config)) / (1 << 20), 149.6, 0.1);
  EXPECT_EQ(draft_kv_bytes_per_token(synth_config({.model = "qwen3.5-35b-a3b"}), DType::kBF16), 2048U);
}

TEST(MemoryReport, SaysWhyThereIsNoHead) {
  ModelConfig config = load_model_config(test::bundled("tiny-dense"));
  config.mtp_num_hidden_layers = 2;
  const MemoryReport report = memory_report(Checkpoint(test::bundled("tiny-dense")), config);
  EXPECT_FALSE(report.mtp_absent_reason.empty());
  EXPECT_EQ(report.draft_step_bytes, 0U);
  EXPECT_EQ(report.draft_bytes, 0U);
}

// What is counted from the plan is what the loaded views say.
TEST(MemoryReport, QuantisedWeightsCountTheirScales) {
  test::EditableCheckpoint checkpoint(test::bundled("tiny-moe"));
  checkpoint.split_experts();
  const std::vector<std::string> quantised{"q_proj", "gate_proj", "up_proj", "down_proj"};
  for (const std::string& base : test::linears(checkpoint, "mtp.", quantised)) {
    const bool is_ffn = base.find(".mlp.") != std::string::npos;
    test::quantise(checkpoint, base, is_ffn ? test::Stored::kNvfp4ModelOpt : test::Stored::kFp8BlockBf16, 1);
  }
  const test::TemporaryFolder folder;
  checkpoint.write(folder.path());
  const MemoryReport report = memory_report(Checkpoint(folder.path()), load_model_config(folder.path()));
  const auto loaded = test::load_directory(folder.path());
  const MtpWeights& mtp = *loaded.model().mtp;
  const auto part = [&](WeightPart kind, WeightFormat format) {
    const auto is_it = [&](const PartReport& p) { return p.draft && p.part == kind && p.format == format; };
    const auto found = std::ranges::find_if(report.parts, is_it);
    return found == report.parts.end() ? PartReport{} : *found;
  };
  const MoeWeights& moe = *mtp.layer.moe;
  EXPECT_EQ(part(WeightPart::kAttention, WeightFormat::kFp8Block).step_bytes, mtp.layer.self_attn->q_proj.bytes());
  EXPECT_EQ(part(WeightPart::kAttention, WeightFormat::kBF16).bytes,
            2 * mtp.layer.self_attn->k_proj.bytes() + mtp.layer.self_attn->o_proj.bytes());
  const PartReport experts = part(WeightPart::kExperts, WeightFormat::kNvfp4);
  EXPECT_EQ(experts.bytes, moe.gate_up_proj.bytes() + moe.down_proj.bytes());
  EXPECT_EQ(experts.step_bytes, experts.bytes / 4) << "two of eight experts are read";
  EXPECT_EQ(experts.num_parameters, 8U * 3 * 96 * 192);
  ASSERT_EQ(report.draft_shares.size(), 3U);
  EXPECT_EQ(report.draft_shares.front().format, WeightFormat::kBF16) << "fc, and what was not quantised";
  EXPECT_EQ(report.draft_shares[1].format, WeightFormat::kNvfp4);
}

}  // namespace
}  // namespace foretoken
