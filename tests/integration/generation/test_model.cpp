#include "test_model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "backends/cpu/cpu_info_limits.h"
#include "models/checkpoint.h"
#include "models/synth.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

LoadedModel load(GpuBackend& backend, const std::string& model) {
  if (is_synth_spec(model)) {
    const SynthSource source(parse_synth_spec(model));
    return load_model(backend, source, source.config());
  }
  const std::filesystem::path directory = data_path(model);
  return load_model(backend, Checkpoint(directory), load_model_config(directory));
}

}  // namespace

std::unique_ptr<GpuBackend> open_cpu(int num_threads) {
  return BackendRegistry::instance().open("cpu", {.num_threads = num_threads});
}

std::unique_ptr<GpuBackend> open_test_device() {
  const char* selector = std::getenv("FORETOKEN_TEST_BACKEND");
  return selector == nullptr ? open_cpu() : BackendRegistry::instance().open(selector);
}

bool has_free_memory(uint64_t gibibytes) { return cpu::available_memory_bytes() >= gibibytes << 30; }

TestModel::TestModel(GpuBackend& backend, const std::string& model, const TestModelOptions& options)
    : backend_(backend), options_(options), loaded_(load(backend, model)), stream_(backend.create_stream()) {
  const TargetRunnerOptions runner_options{.max_seq_len = options.max_seq_len,
                                           .max_sequences = options.max_sequences,
                                           .num_kv_blocks = options.num_kv_blocks,
                                           .prefill_chunk = options.prefill_chunk,
                                           .max_verify_rows = 1 + options.max_drafts,
                                           .num_parked_rows = DrafterRows::kParkedRows * options.max_sequences,
                                           .prefill_precision = options.prefill_precision,
                                           .cache_dtype = options.cache_dtype,
                                           .activation_dtype = options.activation_dtype,
                                           .sampling = options.sampling,
                                           .keep_logits = options.keep_logits || options.self_check};
  runner_ = std::make_unique<TargetRunner>(backend, *stream_, loaded_.config, loaded_.target, runner_options, round_);
  proposer_ =
      std::make_unique<MtpProposer>(backend, loaded_.config, *loaded_.mtp, loaded_.target.embed_tokens, loaded_.target.lm_head,
                                    MtpProposerOptions{.max_seq_len = options.max_seq_len,
                                                       .max_sequences = options.max_sequences,
                                                       .max_drafts = options.max_drafts,
                                                       .max_append_rows = options.max_append_rows,
                                                       .cache_dtype = options.draft_cache_dtype.value_or(options.cache_dtype),
                                                       .activation_dtype = options.activation_dtype,
                                                       .rows = options.rows,
                                                       .hidden = options.hidden,
                                                       .chain = options.chain,
                                                       .measure_log_probabilities = options.log_probabilities,
                                                       .confidence_stop = options.confidence_stop,
                                                       .sampler = runner_->sampler()},
                                    round_);
  round_.allocate(backend);
  if (options.self_check) {
    shadow_ = std::make_unique<TargetRunner>(backend, *stream_, loaded_.config, loaded_.target, runner_options, shadow_round_);
    shadow_round_.allocate(backend);
  }
}

GenerationEngine& TestModel::generator() {
  if (generator_) return *generator_;
  generator_ = std::make_unique<GenerationEngine>(GenerationParts{.backend = &backend_,
                                                                  .stream = stream_.get(),
                                                                  .runner = runner_.get(),
                                                                  .proposer = proposer_.get(),
                                                                  .tokenizer = options_.tokenizer,
                                                                  .shadow = shadow_.get()},
                                                  GenerationEngineOptions{.prefix_cache = options_.prefix_cache,
                                                                          .draft_prompt_rows = options_.draft_prompt_rows,
                                                                          .overcommit = options_.overcommit});
  return *generator_;
}

GenerationResult TestModel::generate(std::span<const int32_t> prompt, int64_t depth, int64_t max_tokens) {
  return generator().generate(
      prompt, {.max_tokens = max_tokens, .num_speculative_tokens = depth, .stop_token_ids = loaded_.config.eos_token_ids});
}

std::vector<float> TestModel::read(const Tensor& tensor) {
  const int64_t columns = tensor.shape().row_elements();
  std::vector<float> values;
  for (int64_t row = 0; row < tensor.dim(0); ++row) {
    const Tensor source = tensor.rows(row, 1);
    std::vector<float> line(static_cast<size_t>(columns));
    if (tensor.dtype() == DType::kBF16) {
      std::vector<uint16_t> bits(line.size());
      stream_->download(source.view(), std::as_writable_bytes(std::span(bits)));
      std::ranges::transform(bits, line.begin(), bf16_to_float);
    } else {
      stream_->download(source.view(), std::as_writable_bytes(std::span(line)));
    }
    values.insert(values.end(), line.begin(), line.end());
  }
  return values;
}

Tensor propose_one(Stream& stream, DraftProposer& proposer, std::span<const int32_t> next_token_ids, const Tensor& hidden,
                   int64_t num_drafts, ProposerState& state) {
  const DraftPart part{.state = &state, .next_token_ids = next_token_ids, .num_drafts = num_drafts};
  return proposer.propose(stream, {&part, 1}, hidden).at(0).rows(0, 1 + num_drafts);
}

double relative_error(std::span<const float> got, std::span<const float> expected, int64_t columns) {
  if (got.size() != expected.size()) return INFINITY;
  double worst = 0.0;
  for (size_t row = 0; row < expected.size(); row += static_cast<size_t>(columns)) {
    double largest = 0.0;
    double difference = 0.0;
    for (size_t i = row; i < row + static_cast<size_t>(columns); ++i) {
      if (std::isnan(got[i])) return INFINITY;
      largest = std::max(largest, std::fabs(double{expected[i]}));
      difference = std::max(difference, std::fabs(double{got[i]} - double{expected[i]}));
    }
    worst = std::max(worst, difference == 0.0 ? 0.0 : difference / largest);
  }
  return worst;
}

}  // namespace foretoken::test
