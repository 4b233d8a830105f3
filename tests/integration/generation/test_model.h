// A bundled checkpoint (or a synthetic one) on a device, with every part of the loop in reach.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "models/model_weights.h"
#include "speculative/generation_engine.h"
#include "speculative/mtp_proposer.h"

namespace foretoken::test {

struct TestModelOptions {
  DType cache_dtype = DType::kF32;
  std::optional<DType> draft_cache_dtype{};  // nothing: like cache_dtype
  LinearPrecision prefill_precision = LinearPrecision::kExact;
  DType activation_dtype = DType::kF32;  // golden values are those of float32 activations
  int64_t prefill_chunk = 512;
  int64_t max_append_rows = 512;
  int64_t max_seq_len = 3400;
  int64_t max_drafts = 15;
  int32_t max_sequences = 1;
  int64_t num_kv_blocks = 0;
  bool overcommit = false;
  std::optional<PrefixCacheOptions> prefix_cache{};
  bool draft_prompt_rows = true;
  std::optional<SamplerOptions> sampling{};
  const Tokenizer* tokenizer = nullptr;
  RowPolicy rows = RowPolicy::kExact;
  HiddenKind hidden = HiddenKind::kPostNorm;
  ChainKind chain = ChainKind::kPostNorm;
  bool keep_logits = false;
  bool self_check = false;  // with a second runner; implies keep_logits
  bool log_probabilities = false;
  std::optional<double> confidence_stop{};
};

/// Opens the CPU with `num_threads`.
[[nodiscard]] std::unique_ptr<GpuBackend> open_cpu(int num_threads = 2);
/// Opens the device that FORETOKEN_TEST_BACKEND selects, the CPU when it is unset.
[[nodiscard]] std::unique_ptr<GpuBackend> open_test_device();
/// Whether so much of the host's memory is free: a test that takes more than small machines have is skipped there.
[[nodiscard]] bool has_free_memory(uint64_t gibibytes);

class TestModel {
 public:
  /// `model` is a folder of tests/data or a "synth:" spec.
  TestModel(GpuBackend& backend, const std::string& model, const TestModelOptions& options = {});

  [[nodiscard]] const ModelConfig& config() const { return loaded_.config; }
  [[nodiscard]] GpuBackend& backend() { return backend_; }
  [[nodiscard]] Stream& stream() { return *stream_; }
  [[nodiscard]] TargetRunner& runner() { return *runner_; }
  [[nodiscard]] MtpProposer& proposer() { return *proposer_; }
  /// Made when it is first asked for: devices without events can run everything else.
  [[nodiscard]] GenerationEngine& generator();
  [[nodiscard]] const LoadedModel& loaded() const { return loaded_; }

  /// At most `max_tokens` greedy ids at a fixed depth, stopping at the config's end tokens.
  GenerationResult generate(std::span<const int32_t> prompt, int64_t depth, int64_t max_tokens = 64);

  /// Values of a device tensor, rows without their gaps.
  [[nodiscard]] std::vector<float> read(const Tensor& tensor);

 private:
  GpuBackend& backend_;
  TestModelOptions options_;
  LoadedModel loaded_;
  std::unique_ptr<Stream> stream_;
  MetadataBuffer round_;
  MetadataBuffer shadow_round_;
  std::unique_ptr<TargetRunner> runner_;
  std::unique_ptr<TargetRunner> shadow_;
  std::unique_ptr<MtpProposer> proposer_;
  std::unique_ptr<GenerationEngine> generator_;
};

/// A propose for one sequence, whose rows are the first of `hidden`: its newest token and drafts, [1 + num_drafts] I32.
[[nodiscard]] Tensor propose_one(Stream& stream, DraftProposer& proposer, std::span<const int32_t> next_token_ids,
                                 const Tensor& hidden, int64_t num_drafts, ProposerState& state);

/// The relative error of a tensor: max |a - b| / max |b| of the worst row. Both hold rows of `columns` values.
[[nodiscard]] double relative_error(std::span<const float> got, std::span<const float> expected, int64_t columns);

}  // namespace foretoken::test
