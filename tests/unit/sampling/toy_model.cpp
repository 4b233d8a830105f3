#include "tests/unit/sampling/toy_model.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace foretoken::test {
namespace {

constexpr auto kVocab = static_cast<size_t>(ToyModel::kVocab);
constexpr int64_t kBatch = 4096;
constexpr int64_t kPositionsEach = 64;  // of a sequence, so that no two have random numbers in common

/// Sequences that take a round together.
class Batch {
 public:
  Batch(TestDevice& device, const ToyModel& model, const ToyRun& run);

  /// One round: drafts, the rows of all, what is accepted. Appends to the outputs.
  void round(std::span<std::vector<int32_t>* const> outputs, std::span<const int64_t> sequences, std::vector<int64_t>& accepted);

 private:
  using LogitsOf = std::span<const float> (ToyModel::*)(std::span<const int32_t>) const;

  /// Rows of the step being put together.
  struct Rows {
    std::vector<float> logits;
    std::vector<int32_t> positions;
    std::vector<int32_t> token_ids;
    std::vector<int32_t> history;      // [rows, 2]
    std::vector<int32_t> history_ids;  // outputs of the sequences
  };

  static void add_row(Rows& rows, std::span<const float> logits, int64_t position, int32_t token_id,
                      std::span<const int32_t> output);
  [[nodiscard]] Tensor process(const Rows& rows);
  [[nodiscard]] static int64_t first_position(int64_t sequence, size_t output) {
    return sequence * kPositionsEach + static_cast<int64_t>(output);
  }

  TestDevice& device_;
  const ToyModel& model_;
  const ToyRun& run_;
  int64_t rows_each_;
  Tensor reals_, integers_, seeds_, bias_ids_, bias_values_, stop_ids_, counts_;
  Tensor logits_, row_slots_, positions_, token_ids_, history_, history_ids_, picks_, weight_sums_;
  Tensor block_positions_, draft_ids_, candidate_ids_, candidate_weights_, starts_, block_rows_, num_accepted_;
};

Batch::Batch(TestDevice& device, const ToyModel& model, const ToyRun& run)
    : device_(device), model_(model), run_(run), rows_each_(1 + run.num_drafts) {
  const SamplingParams& p = run.params;
  reals_ = device.tensor(
      DType::kF32, {1, kNumSamplingReals},
      std::vector<float>{p.temperature, p.top_p, p.min_p, p.repetition_penalty, p.presence_penalty, p.frequency_penalty});
  integers_ = device.tensor(DType::kI32, {1, kNumSamplingIntegers},
                            std::vector<int32_t>{p.top_k, 0, static_cast<int32_t>(p.draft_sampling)});
  seeds_ = device.tensor(DType::kI64, {1}, std::vector<uint64_t>{p.seed});
  bias_ids_ = device.tensor(DType::kI32, {1, 1}, std::vector<int32_t>{-1});
  bias_values_ = device.tensor(DType::kF32, {1, 1}, std::vector<float>{0.0F});
  stop_ids_ = device.tensor(DType::kI32, {1, 1}, std::vector<int32_t>{-1});
  std::vector<int32_t> counts(kVocab);
  for (const int32_t id : run.prompt) counts[static_cast<size_t>(id)] = kInPrompt;
  counts_ = device.tensor(DType::kI32, {1, ToyModel::kVocab}, counts);
  const int64_t rows = kBatch * rows_each_;
  logits_ = device.tensor(DType::kF32, {rows, ToyModel::kVocab});
  row_slots_ = device.tensor(DType::kI32, {rows}, std::vector<int32_t>(static_cast<size_t>(rows), 0));
  positions_ = device.tensor(DType::kI32, {rows});
  token_ids_ = device.tensor(DType::kI32, {rows});
  history_ = device.tensor(DType::kI32, {rows, 2});
  history_ids_ = device.tensor(DType::kI32, {rows * kPositionsEach});
  picks_ = device.tensor(DType::kI32, {rows});
  weight_sums_ = device.tensor(DType::kI64, {rows});
  const Shape lists{std::max<int64_t>(run.num_drafts, 1), kBatch, run.num_candidates};
  block_positions_ = device.tensor(DType::kI32, {kBatch});
  draft_ids_ = device.tensor(DType::kI32, {kBatch});
  candidate_ids_ = device.tensor(DType::kI32, lists);
  candidate_weights_ = device.tensor(DType::kI64, lists);
  starts_ = device.tensor(DType::kI32, {kBatch + 1});
  std::vector<int32_t> block_rows(kBatch);
  std::iota(block_rows.begin(), block_rows.end(), 0);
  block_rows_ = device.tensor(DType::kI32, {kBatch}, block_rows);
  num_accepted_ = device.tensor(DType::kI32, {kBatch});
}

void Batch::add_row(Rows& rows, std::span<const float> logits, int64_t position, int32_t token_id,
                    std::span<const int32_t> output) {
  rows.logits.insert(rows.logits.end(), logits.begin(), logits.end());
  rows.positions.push_back(static_cast<int32_t>(position));
  rows.token_ids.push_back(token_id);
  rows.history.push_back(static_cast<int32_t>(rows.history_ids.size()));
  rows.history.push_back(static_cast<int32_t>(output.size()));
  rows.history_ids.insert(rows.history_ids.end(), output.begin(), output.end());
}

/// Uploads the rows and processes their logits.
Tensor Batch::process(const Rows& rows) {
  const auto count = static_cast<int64_t>(rows.positions.size());
  const Tensor logits = logits_.rows(0, count);
  device_.write(logits, rows.logits);
  device_.write(positions_.rows(0, count), rows.positions);
  device_.write(token_ids_.rows(0, count), rows.token_ids);
  device_.write(history_.rows(0, count), rows.history);
  device_.write(history_ids_.rows(0, static_cast<int64_t>(rows.history_ids.size())), rows.history_ids);
  ProcessLogits op;
  op.logits = logits;
  op.row_slots = row_slots_.rows(0, count);
  op.positions = positions_.rows(0, count);
  op.reals = reals_;
  op.integers = integers_;
  op.bias_ids = bias_ids_;
  op.bias_values = bias_values_;
  op.stop_ids = stop_ids_;
  op.counts = counts_;
  op.history_ids = history_ids_;
  op.history = history_.rows(0, count);
  device_.run(op);
  return logits;
}

void Batch::round(std::span<std::vector<int32_t>* const> outputs, std::span<const int64_t> sequences,
                  std::vector<int64_t>& accepted) {
  const auto count = static_cast<int64_t>(outputs.size());
  std::vector<int32_t> block_positions;
  for (size_t i = 0; i < outputs.size(); ++i) {
    block_positions.push_back(static_cast<int32_t>(first_position(sequences[i], outputs[i]->size())));
  }
  device_.write(block_positions_.rows(0, count), block_positions);
  std::vector<std::vector<int32_t>> texts;  // outputs and drafts
  for (const auto* output : outputs) texts.push_back(*output);
  for (int64_t j = 0; j < run_.num_drafts; ++j) {
    Rows rows;
    for (size_t i = 0; i < texts.size(); ++i) add_row(rows, model_.drafter(texts[i]), block_positions[i] + j, -1, texts[i]);
    const Tensor logits = process(rows);
    device_.run(SampleDrafts{.logits = logits,
                             .row_slots = row_slots_.rows(0, count),
                             .positions = block_positions_.rows(0, count),
                             .reals = reals_,
                             .integers = integers_,
                             .seeds = seeds_,
                             .token_ids = draft_ids_.rows(0, count),
                             .candidate_ids = candidate_ids_.at(j).rows(0, count),
                             .candidate_weights = candidate_weights_.at(j).rows(0, count),
                             .draft_idx = static_cast<uint32_t>(j)});
    const std::vector<int32_t> drafts = device_.read<int32_t>(draft_ids_.rows(0, count));
    for (size_t i = 0; i < texts.size(); ++i) texts[i].push_back(drafts[i]);
  }
  Rows rows;
  std::vector<int32_t> starts{0};
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t before = outputs[i]->size();
    for (size_t j = 0; j < static_cast<size_t>(rows_each_); ++j) {
      const auto text = std::span<const int32_t>(texts[i]).first(before + j);
      add_row(rows, model_.target(text), block_positions[i] + static_cast<int64_t>(j), j == 0 ? 0 : text.back(), text);
    }
    starts.push_back(static_cast<int32_t>(rows.positions.size()));
  }
  const Tensor logits = process(rows);
  const int64_t num_rows = logits.dim(0);
  const Tensor starts_tensor = starts_.rows(0, count + 1);
  device_.write(starts_tensor, starts);
  device_.run(SampleTokens{.logits = logits,
                           .row_slots = row_slots_.rows(0, num_rows),
                           .positions = positions_.rows(0, num_rows),
                           .reals = reals_,
                           .seeds = seeds_,
                           .token_ids = picks_.rows(0, num_rows),
                           .weight_sums = weight_sums_.rows(0, num_rows)});
  device_.run(AcceptSampled{.logits = logits,
                            .weight_sums = weight_sums_.rows(0, num_rows),
                            .token_ids = token_ids_.rows(0, num_rows),
                            .row_slots = row_slots_.rows(0, num_rows),
                            .positions = positions_.rows(0, num_rows),
                            .query_start_loc = starts_tensor,
                            .block_rows = block_rows_.rows(0, count),
                            .candidate_ids = candidate_ids_,
                            .candidate_weights = candidate_weights_,
                            .reals = reals_,
                            .integers = integers_,
                            .seeds = seeds_,
                            .picks = picks_.rows(0, num_rows),
                            .num_accepted = num_accepted_.rows(0, count)});
  const std::vector<int32_t> picks = device_.read<int32_t>(picks_.rows(0, num_rows));
  const std::vector<int32_t> num_accepted = device_.read<int32_t>(num_accepted_.rows(0, count));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int32_t* first = picks.data() + starts[i];
    outputs[i]->insert(outputs[i]->end(), first, first + num_accepted[i] + 1);
    accepted.push_back(num_accepted[i]);
  }
}

}  // namespace

ToyModel::ToyModel(uint64_t seed, double noise) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal(0.0, 1.0);
  const size_t rows = (kVocab + 1) * (kVocab + 1);
  for (size_t i = 0; i < rows * kVocab; ++i) {
    const double logit = 1.5 * normal(generator);
    target_.push_back(static_cast<float>(logit));
    drafter_.push_back(static_cast<float>(logit + noise * normal(generator)));
  }
}

std::span<const float> ToyModel::row(const std::vector<float>& table, std::span<const int32_t> output) {
  const auto token = [&](size_t back) {
    return output.size() < back ? kVocab : static_cast<size_t>(output[output.size() - back]);
  };
  return std::span(table).subspan((token(1) * (kVocab + 1) + token(2)) * kVocab, kVocab);
}

double ToyResult::mean_first_accepted() const {
  const auto sum = std::accumulate(first_accepted.begin(), first_accepted.end(), int64_t{0});
  return static_cast<double>(sum) / static_cast<double>(first_accepted.size());
}

ToyResult generate(TestDevice& device, const ToyModel& model, const ToyRun& run) {
  ToyResult result;
  result.outputs.resize(static_cast<size_t>(run.num_sequences));
  Batch batch(device, model, run);
  for (int64_t first = 0; first < run.num_sequences; first += kBatch) {
    std::vector<int64_t> sequences(static_cast<size_t>(std::min(kBatch, run.num_sequences - first)));
    std::iota(sequences.begin(), sequences.end(), first);
    for (bool is_first = true; !sequences.empty(); is_first = false) {
      std::vector<std::vector<int32_t>*> outputs;
      for (const int64_t sequence : sequences) outputs.push_back(&result.outputs[static_cast<size_t>(sequence)]);
      std::vector<int64_t> accepted;
      batch.round(outputs, sequences, accepted);
      if (is_first) result.first_accepted.insert(result.first_accepted.end(), accepted.begin(), accepted.end());
      std::erase_if(sequences, [&](int64_t sequence) {
        return static_cast<int64_t>(result.outputs[static_cast<size_t>(sequence)].size()) >= run.num_tokens;
      });
    }
  }
  return result;
}

}  // namespace foretoken::test
