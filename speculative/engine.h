// From the name of a model to text: opens a device, loads the model, and builds the target, the drafter and the generation loop
// with memory for what the caller wants to do. What it decides by itself it says in notes().
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "models/model_weights.h"
#include "models/tokenizer.h"
#include "speculative/draft_precision.h"
#include "speculative/generation_engine.h"
#include "speculative/mtp_proposer.h"
#include "speculative/target_runner.h"

namespace foretoken {

struct EngineOptions {
  std::string model;                                 // folder of a checkpoint, or "synth:..."; empty: the bundled checkpoint
  std::string backend;                               // selector of BackendRegistry::open
  int num_threads = 0;                               // of the CPU backend; 0: one per core
  std::optional<DType> kv_dtype;                     // of the target: F32, BF16 or E4M3; nothing: BF16
  std::optional<DType> draft_kv_dtype;               // of the drafter; nothing: like the target's
  std::optional<LinearPrecision> prefill_precision;  // nothing: BF16 activations where the device is faster with them
  std::optional<DType> activation_dtype;             // of the inputs of linear layers: F32 or BF16; nothing: the device's best
  int64_t max_speculative_tokens = 3;                // most drafts of a round, 0 .. 15; 0: no drafter
  std::optional<DepthPolicySpec> depth_policy{};     // nothing: every request's own depth
  bool require_speculation = false;                  // a checkpoint without a usable head is an error, not a note
  HiddenKind draft_hidden = HiddenKind::kPostNorm;   // which target hidden states the head is fed
  bool draft_prompt_rows = true;                     // see GenerationEngineOptions
  RowPolicy draft_rows = RowPolicy::kExact;          // which cache rows of a chain stay after a verify
  std::optional<double> draft_confidence_stop;       // see MtpProposerOptions
  ChainKind draft_chain = ChainKind::kPostNorm;      // what a chained draft pass is fed
  DraftPrecision draft_precision{};                  // formats of the head's weights
  std::string draft_vocab;                           // what drafts can be: see read_draft_vocab; empty: every token
  bool keep_logits = false;                          // see TargetRunnerOptions
  int32_t max_sequences = 1;                         // requests decoded at once, 1 .. kMaxBatch
  bool overcommit = false;                           // see GenerationEngineOptions
  int64_t kv_cache_tokens = 0;                       // of the target's cache; 0: enough for max_sequences of the largest size
  std::optional<PrefixCacheOptions> prefix_cache{};  // its chunk is prefill_chunk
  std::optional<SamplerOptions> sampling{};          // allows SamplingParams other than greedy
  bool self_check = false;                           // compares all target logits with those of a second, plain sequence
  int64_t prefill_chunk = 512;                       // prompt tokens of one pass
};

/// A device that is open already, and the stream on which an engine shall work.
struct EngineDevice {
  std::shared_ptr<GpuBackend> backend{};
  std::shared_ptr<Stream> stream{};
};

/// One model on one device. Not thread-safe.
class Engine {
 public:
  /// Opens the model's files and the device, unless one is given, and checks them; reads no weights yet. Throws InvalidArgument
  /// (options, no such folder or backend), FormatError (the model's files), Unsupported (no head although one is required,
  /// activations or a draft precision that the device cannot use).
  explicit Engine(EngineOptions options, EngineDevice device = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  using ProgressFn = std::function<void(uint64_t done, uint64_t total)>;

  /// Loads the weights and reserves memory for sequences of `prompt_tokens` and `max_tokens` more, as far as the model's context
  /// goes; records all Programs. `progress` gets bytes loaded and in all. Once per engine. Throws InvalidArgument (a prompt that
  /// is empty or leaves no room in the context), OutOfMemory, Unsupported, and what load_model throws; nothing stays allocated
  /// then.
  void load(int64_t prompt_tokens, int64_t max_tokens, const ProgressFn& progress = {});

  /// The folder or "synth:..." that was opened.
  [[nodiscard]] const std::string& model_name() const { return model_name_; }
  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] const WeightSource& source() const { return *source_; }
  /// Null for models that come without one: token ids only.
  [[nodiscard]] const Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
  /// Whether rounds can draft.
  [[nodiscard]] bool can_speculate() const { return speculates_; }
  /// Why there is no draft head; empty when there is one.
  [[nodiscard]] const std::string& mtp_absent_reason() const { return mtp_absent_reason_; }
  /// What was chosen on the caller's behalf, one sentence each.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  [[nodiscard]] const EngineOptions& options() const { return options_; }
  [[nodiscard]] DType kv_dtype() const { return options_.kv_dtype.value_or(DType::kBF16); }
  [[nodiscard]] DType draft_kv_dtype() const { return options_.draft_kv_dtype.value_or(kv_dtype()); }
  [[nodiscard]] LinearPrecision prefill_precision() const { return prefill_precision_; }
  [[nodiscard]] DType activation_dtype() const { return activation_dtype_; }

  [[nodiscard]] GpuBackend& backend() { return *device_.backend; }
  [[nodiscard]] Stream& stream() { return *device_.stream; }

  /// The parts that load() made; calling them before is InvalidState.
  [[nodiscard]] const LoadedModel& model() const;
  [[nodiscard]] TargetRunner& runner();
  /// Null when can_speculate() says no.
  [[nodiscard]] MtpProposer* proposer();
  /// The tokens that drafts can be; empty: all of them.
  [[nodiscard]] std::span<const int32_t> draft_vocab() const { return draft_vocab_; }
  /// The head that the proposer drafts with; null when can_speculate() says no.
  [[nodiscard]] const DraftHead* draft_head() const;
  [[nodiscard]] GenerationEngine& generator();
  /// A depth policy for it, which knows what rounds cost where it decides by that. Not while the generator has requests.
  [[nodiscard]] std::unique_ptr<DepthPolicy> make_policy(const DepthPolicySpec& spec) { return make_policy(loaded(), spec); }

 private:
  struct Loaded;

  void open_model();
  void choose_activation_dtype();
  void choose_prefill_precision();
  void decide_speculation();
  void choose_draft_formats(const WeightPlan& plan);
  [[nodiscard]] TargetRunnerOptions runner_options(int64_t prompt_tokens, int64_t max_tokens) const;
  void load_parts(const TargetRunnerOptions& target_options, const ProgressFn& progress);
  [[nodiscard]] std::string memory_needed(int64_t max_seq_len) const;
  void add_drafter(Loaded& loaded) const;
  void add_generator(Loaded& loaded) const;
  [[nodiscard]] GenerationParts parts_of(Loaded& loaded) const;
  [[nodiscard]] std::unique_ptr<DepthPolicy> make_policy(Loaded& loaded, const DepthPolicySpec& spec) const;
  void prepare(Loaded& loaded) const;
  void prepare(Loaded& loaded, int64_t num_sequences, bool is_sampled) const;
  void note_fallbacks(const Loaded& loaded);
  [[nodiscard]] Loaded& loaded() const;

  EngineOptions options_;
  EngineDevice device_;
  std::vector<std::string> notes_;
  std::string model_name_;
  std::unique_ptr<WeightSource> source_;
  ModelConfig config_;
  std::optional<Tokenizer> tokenizer_;
  DType activation_dtype_ = DType::kF32;
  LinearPrecision prefill_precision_ = LinearPrecision::kExact;
  std::string mtp_absent_reason_;
  bool speculates_ = false;
  DraftFormats draft_formats_;
  std::vector<int32_t> draft_vocab_;
  std::unique_ptr<Loaded> loaded_;
};

/// The files of a model: a checkpoint folder, or "synth:NAME[:layers=N][:seed=S]" for random weights in the shapes of a real
/// model.
struct ModelFiles {
  std::string name;                 // as given, or the folder of the bundled checkpoint
  std::filesystem::path directory;  // empty for synthetic models
  ModelConfig config;
  std::unique_ptr<WeightSource> source;
};

/// Opens and checks them, reads no weights. An empty name is the bundled checkpoint. Throws InvalidArgument and FormatError.
[[nodiscard]] ModelFiles open_model_files(const std::string& name);

}  // namespace foretoken
