// `foretoken bench draft`.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "apps/foretoken/draft_chain_report.h"
#include "apps/foretoken/engine_setup.h"
#include "apps/foretoken/exit_status.h"
#include "backends/ops.h"
#include "core/error.h"
#include "models/memory_report.h"

namespace foretoken::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMaxDrafts = TargetRunner::kMaxVerifyRows - 1;
constexpr int kWarmUps = 3;
constexpr uint64_t kSeed = 20260412;
constexpr int kHiddenExponent = -7;  // |h| < 1

struct DraftBenchOptions {
  std::vector<int64_t> drafts;     // of a chain, in the order given
  std::vector<int64_t> sequences;  // that draft together, in the order given
  int64_t context_tokens = 0;
  int64_t repeat = 0;
};

DraftBenchOptions bench_options(const Options& options) {
  DraftBenchOptions wanted{.drafts = {},
                           .sequences = {},
                           .context_tokens = options.integer("context", 0, INT32_MAX),
                           .repeat = options.integer("repeat", 1, 10000)};
  for (const int64_t drafts : options.integers("speculative-tokens", 1, kMaxDrafts)) {
    if (std::ranges::find(wanted.drafts, drafts) == wanted.drafts.end()) wanted.drafts.push_back(drafts);
  }
  for (const int64_t sequences : options.integers("sequences", 1, kMaxBatch)) {
    if (std::ranges::find(wanted.sequences, sequences) == wanted.sequences.end()) wanted.sequences.push_back(sequences);
  }
  return wanted;
}

double microseconds(Clock::duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

/// Chains that some sequences draft again and again from the same place, each of its own random text.
class DraftBench {
 public:
  /// Fills the drafter's cache with random rows.
  DraftBench(Engine& engine, const DraftBenchOptions& wanted, int64_t num_sequences);

  [[nodiscard]] DraftChain measure(int64_t drafts);

 private:
  /// What one of the sequences drafts from.
  struct Sequence {
    std::vector<int32_t> token_ids;  // of the context, and the newest one
    std::unique_ptr<ProposerState> state;
  };

  void append_context(Sequence& sequence);
  /// Starts one chain over one new row of each sequence.
  Tensor propose(int64_t drafts);
  /// Takes the last chain's rows out of the cache again.
  void forget_chain();
  [[nodiscard]] Spread measure_device(int64_t drafts);
  void measure_host(int64_t drafts, DraftChain& chain);
  [[nodiscard]] uint64_t bytes_of(int64_t drafts) const;

  Engine& engine_;
  Stream& stream_;
  MtpProposer& proposer_;
  const DraftBenchOptions& wanted_;
  Tensor hidden_;  // [rows, hidden_size], of the target
  std::vector<Sequence> sequences_;
};

DraftBench::DraftBench(Engine& engine, const DraftBenchOptions& wanted, int64_t num_sequences)
    : engine_(engine),
      stream_(engine.stream()),
      proposer_(*engine.proposer()),
      wanted_(wanted),
      hidden_(engine.runner().model().hidden()) {
  stream_.run([&](CommandList& cmd) {
    const Tensor all = hidden_.reshape({hidden_.shape().num_elements()});
    ops::dispatch(cmd, RandomFill{.out = all, .seed = kSeed, .exponent = kHiddenExponent});
  });
  std::mt19937_64 generator(kSeed);
  for (int64_t i = 0; i < num_sequences; ++i) {
    Sequence& sequence = sequences_.emplace_back();
    sequence.token_ids.resize(static_cast<size_t>(wanted.context_tokens) + 1);
    for (int32_t& id : sequence.token_ids) {
      id = static_cast<int32_t>(generator() % static_cast<uint64_t>(engine.config().vocab_size));
    }
    sequence.state = proposer_.alloc_state(wanted.context_tokens + 1 + proposer_.max_drafts());
    append_context(sequence);
  }
}

void DraftBench::append_context(Sequence& sequence) {
  const int64_t step = std::min(proposer_.max_append_rows(), engine_.runner().model().max_rows());
  for (int64_t row = 0; row < wanted_.context_tokens; row += step) {
    const int64_t rows = std::min(step, wanted_.context_tokens - row);
    const auto ids = std::span(sequence.token_ids).subspan(static_cast<size_t>(row), static_cast<size_t>(rows));
    proposer_.append_rows(stream_, ids, hidden_.rows(0, rows), LinearPrecision::kExact, *sequence.state);
  }
}

/// Each sequence has a hidden state of its own, so that rows pick experts of their own.
Tensor DraftBench::propose(int64_t drafts) {
  std::vector<DraftPart> parts;
  for (Sequence& sequence : sequences_) {
    parts.push_back({.state = sequence.state.get(),
                     .next_token_ids = std::span(sequence.token_ids).last(1),
                     .first_hidden_row = static_cast<int64_t>(parts.size()),
                     .num_drafts = drafts});
  }
  return proposer_.propose(stream_, parts, hidden_);
}

void DraftBench::forget_chain() {
  for (Sequence& sequence : sequences_) {
    DrafterKv kv = proposer_.take_kv(*sequence.state);
    proposer_.install_kv(kv, wanted_.context_tokens, *sequence.state);
  }
}

/// Pass i attends to the context and the i + 1 rows that the chain has written.
uint64_t DraftBench::bytes_of(int64_t drafts) const {
  const auto passes = static_cast<uint64_t>(drafts);
  const uint64_t attended = passes * static_cast<uint64_t>(wanted_.context_tokens) + passes * (passes + 1) / 2;
  const auto rows = static_cast<int64_t>(sequences_.size());
  return passes * draft_step_bytes(*engine_.draft_head(), engine_.config(), rows) +
         static_cast<uint64_t>(rows) * attended * draft_kv_bytes_per_token(engine_.config(), engine_.draft_kv_dtype());
}

/// Chains behind each other, so that the device never waits for the host.
Spread DraftBench::measure_device(int64_t drafts) {
  std::vector<std::unique_ptr<Event>> events;
  for (int64_t i = 0; i <= wanted_.repeat; ++i) events.push_back(engine_.backend().create_event());
  for (int i = 0; i < kWarmUps; ++i) {
    static_cast<void>(propose(drafts));
    forget_chain();
  }
  stream_.record(*events.front());
  for (size_t i = 1; i < events.size(); ++i) {
    static_cast<void>(propose(drafts));
    stream_.record(*events[i]);
    forget_chain();
  }
  events.back()->synchronize();
  std::vector<double> samples;
  for (size_t i = 1; i < events.size(); ++i) samples.push_back(events[i]->elapsed_us(*events[i - 1]));
  return spread_of(std::move(samples));
}

void DraftBench::measure_host(int64_t drafts, DraftChain& chain) {
  std::vector<double> wall;
  std::vector<double> host;
  std::vector<int32_t> ids(static_cast<size_t>(proposer_.block_token_ids().shape().num_elements()));
  for (int64_t i = 0; i < wanted_.repeat + kWarmUps; ++i) {
    stream_.synchronize();
    const Clock::time_point begin = Clock::now();
    const Tensor block = propose(drafts);
    const Clock::time_point issued = Clock::now();
    stream_.download(block.view(), std::as_writable_bytes(std::span(ids)));
    const Clock::time_point end = Clock::now();
    forget_chain();
    if (i < kWarmUps) continue;
    host.push_back(microseconds(issued - begin));
    wall.push_back(microseconds(end - begin));
  }
  chain.wall_us = spread_of(std::move(wall));
  if (engine_.backend().capabilities().kind != DeviceKind::kCpu) chain.host_us = spread_of(std::move(host));
}

DraftChain DraftBench::measure(int64_t drafts) {
  DraftChain chain{.num_sequences = static_cast<int64_t>(sequences_.size()),
                   .num_drafts = drafts,
                   .bytes = bytes_of(drafts),
                   .device_us = measure_device(drafts)};
  measure_host(drafts, chain);
  return chain;
}

}  // namespace

int run_bench_draft(const Options& options) {
  const DraftBenchOptions wanted = bench_options(options);
  EngineOptions engine_options = drafter_options(options);
  engine_options.max_speculative_tokens = *std::ranges::max_element(wanted.drafts);
  engine_options.max_sequences = static_cast<int32_t>(*std::ranges::max_element(wanted.sequences));
  engine_options.require_speculation = true;
  Engine engine(std::move(engine_options));
  const int64_t context = engine.config().max_position_embeddings;
  if (wanted.context_tokens + kMaxDrafts + 2 > context) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "the drafter's cache does not fit into the model's context",
                                              .expected = fmt::format("at most {} tokens", context - kMaxDrafts - 2),
                                              .got = std::to_string(wanted.context_tokens)});
  }
  const Capabilities& device = engine.backend().capabilities();
  const ReadBandwidth read_bandwidth = BandwidthMeter(engine.backend()).measure();
  load_engine(engine, wanted.context_tokens + 1, kMaxDrafts, options.flag("quiet"));
  DraftChainReport report{.model = engine.model_name(),
                          .backend = device.backend,
                          .device = device.device_name,
                          .num_threads = device.num_compute_units,
                          .activations = std::string(dtype_name(engine.activation_dtype())),
                          .draft_kv_dtype = std::string(dtype_name(engine.draft_kv_dtype())),
                          .draft = draft_report(engine.options().draft_precision, *engine.draft_head()),
                          .context_tokens = wanted.context_tokens,
                          .repeat = wanted.repeat,
                          .read_bandwidth = read_bandwidth,
                          .chains = {}};
  for (const int64_t sequences : wanted.sequences) {
    DraftBench bench(engine, wanted, sequences);
    for (const int64_t drafts : wanted.drafts) report.chains.push_back(bench.measure(drafts));
  }
  fmt::print("{}", options.flag("json") ? to_json(report) : to_table(report));
  return kExitOk;
}

}  // namespace foretoken::cli
