#include <algorithm>
#include <cmath>

#include "core/op_case.h"
#include "core/ops/accept_sampled.h"
#include "core/ops/case_parts.h"
#include "core/ops/sampling_case_parts.h"

namespace foretoken {
namespace {

struct Recipe {
  int64_t num_sequences;
  int64_t num_rows;    // of the step
  int64_t num_drafts;  // most of a sequence
  int64_t vocab_size;
  int64_t num_candidates;
  double noise;  // how far the drafter is from the target
  bool strided = false;
};

constexpr int64_t kSlots = 8;

/// The step's contents, drawn together because they depend on each other.
struct Step {
  Step(std::mt19937_64& generator, const Recipe& recipe);

  std::vector<int32_t> starts;
  std::vector<int32_t> block_rows;
  std::vector<double> logits;       // [T, V]
  std::vector<double> weight_sums;  // [T]
  std::vector<int32_t> token_ids;   // [T]
  std::vector<int32_t> row_slots;   // [T]
  std::vector<int32_t> positions;   // [T]
  std::vector<int32_t> picks;       // [T]
  std::vector<int32_t> ids;         // [K, Q, C]
  std::vector<double> weights;      // [K, Q, C]

 private:
  /// Lists the candidates of draft j (from 1) for a target row, and draws the draft from them.
  int32_t list_draft(std::mt19937_64& generator, const Recipe& recipe, std::span<const double> row, size_t list);
};

int32_t Step::list_draft(std::mt19937_64& generator, const Recipe& recipe, std::span<const double> row, size_t list) {
  std::normal_distribution<double> normal;  // times the noise, which may be 0
  std::vector<std::pair<double, int32_t>> order;
  for (size_t v = 0; v < row.size(); ++v)
    order.emplace_back(-row[v] + std::fabs(recipe.noise * normal(generator)), static_cast<int32_t>(v));
  std::ranges::sort(order);
  order.resize(std::min(order.size(), static_cast<size_t>(recipe.num_candidates)));
  std::ranges::sort(order, {}, [](const auto& candidate) { return candidate.second; });
  size_t count = 0;
  uint64_t sum = 0;
  for (const auto& [below, id] : order) {
    const uint64_t weight = sampling_weight(static_cast<float>(-below));
    if (weight == 0) continue;
    ids[list + count] = id;
    weights[list + count] = static_cast<double>(weight);
    sum += weight;
    ++count;
  }
  uint64_t number = multiply_high(generator(), sum);
  size_t drawn = 0;
  while (static_cast<uint64_t>(weights[list + drawn]) <= number) number -= static_cast<uint64_t>(weights[list + drawn++]);
  return ids[list + drawn];
}

Step::Step(std::mt19937_64& generator, const Recipe& recipe) {
  const int64_t V = recipe.vocab_size;
  const int64_t Q = recipe.num_sequences + 1;
  const auto num_lists = static_cast<size_t>(recipe.num_drafts * Q * recipe.num_candidates);
  ids.assign(num_lists, -1);
  weights.assign(num_lists, 0.0);
  starts = case_parts::start_locations(
      case_parts::ragged_rows(generator, recipe.num_sequences, recipe.num_rows, 1 + recipe.num_drafts));
  block_rows = case_parts::sample_distinct(generator, Q, recipe.num_sequences);
  for (int64_t t = 0; t < recipe.num_rows; ++t) {
    const std::vector<double> row = case_parts::processed_row(generator, V, 2.0);
    uint64_t sum = 0;
    for (const double x : row) sum += sampling_weight(static_cast<float>(x));
    logits.insert(logits.end(), row.begin(), row.end());
    weight_sums.push_back(static_cast<double>(sum));
    picks.push_back(case_parts::draw(generator, 0, V - 1));
    token_ids.push_back(case_parts::draw(generator, 0, V - 1));
    positions.push_back(case_parts::draw(generator, 0, 1 << 20));
  }
  row_slots.assign(static_cast<size_t>(recipe.num_rows), -1);
  const std::vector<int32_t> slots = case_parts::random_slots(generator, recipe.num_sequences, kSlots);
  for (size_t b = 0; b < block_rows.size(); ++b) {
    const auto first = static_cast<size_t>(starts[b]);
    for (size_t t = first; t < static_cast<size_t>(starts[b + 1]); ++t) {
      row_slots[t] = slots[b];
      const size_t j = t - first;
      if (j == 0) continue;
      const size_t list =
          ((j - 1) * static_cast<size_t>(Q) + static_cast<size_t>(block_rows[b])) * static_cast<size_t>(recipe.num_candidates);
      const auto target = std::span<const double>(logits).subspan((t - 1) * static_cast<size_t>(V), static_cast<size_t>(V));
      const int32_t drafted = list_draft(generator, recipe, target, list);
      // One in eight is another's choice, and likely not among the candidates; greedy slots have drafts that hold.
      token_ids[t] = generator() % 8 == 0 ? token_ids[t] : drafted;
      if (generator() % 4 != 0) picks[t - 1] = token_ids[t];
    }
    if (generator() % 8 == 0) block_rows[b] = -1;
  }
}

AcceptSampled make_accept(OperandMaker& maker, const Recipe& recipe) {
  using case_parts::listed;
  const int64_t T = recipe.num_rows, V = recipe.vocab_size, B = recipe.num_sequences;
  const Shape lists{recipe.num_drafts, B + 1, recipe.num_candidates};
  std::mt19937_64 generator(maker.seed());
  const case_parts::SlotParameters slots(generator, kSlots, V);
  const Step step(generator, recipe);
  AcceptSampled op;
  op.logits = recipe.strided ? maker.strided(DType::kF32, {T, V}, V + 3, fill::values(step.logits))
                             : maker.input(DType::kF32, {T, V}, fill::values(step.logits));
  op.weight_sums = maker.input(DType::kI64, {T}, fill::values(step.weight_sums));
  op.token_ids = maker.input(DType::kI32, {T}, listed(step.token_ids));
  op.row_slots = maker.input(DType::kI32, {T}, listed(step.row_slots));
  op.positions = maker.input(DType::kI32, {T}, listed(step.positions));
  op.query_start_loc = maker.input(DType::kI32, {B + 1}, listed(step.starts));
  op.block_rows = maker.input(DType::kI32, {B}, listed(step.block_rows));
  op.candidate_ids = maker.input(DType::kI32, lists, listed(step.ids));
  op.candidate_weights = maker.input(DType::kI64, lists, fill::values(step.weights));
  op.reals = maker.input(DType::kF32, {kSlots, kNumSamplingReals}, fill::values(slots.reals));
  op.integers = maker.input(DType::kI32, {kSlots, kNumSamplingIntegers}, fill::values(slots.integers));
  op.seeds = maker.input(DType::kI64, {kSlots}, fill::values(slots.seeds));
  op.picks = maker.in_out(DType::kI32, {T}, listed(step.picks));
  op.num_accepted = maker.output(DType::kI32, {B});
  return op;
}

}  // namespace

std::vector<OpCase<AcceptSampled>> AcceptSampled::cases() {
  const Recipe recipes[] = {
      {.num_sequences = 1, .num_rows = 4, .num_drafts = 3, .vocab_size = 16, .num_candidates = 16, .noise = 0.5},
      {.num_sequences = 40, .num_rows = 160, .num_drafts = 7, .vocab_size = 16, .num_candidates = 8, .noise = 1.0},
      {.num_sequences = 24, .num_rows = 96, .num_drafts = 5, .vocab_size = 1003, .num_candidates = 33, .noise = 0.2},
      {.num_sequences = 6, .num_rows = 40, .num_drafts = 31, .vocab_size = 300, .num_candidates = 256, .noise = 0.0},
      {.num_sequences = 12, .num_rows = 30, .num_drafts = 1, .vocab_size = 100, .num_candidates = 1, .noise = 0.5},
      {.num_sequences = 2, .num_rows = 4, .num_drafts = 2, .vocab_size = 248320, .num_candidates = 128, .noise = 0.5},
      {.num_sequences = 9,
       .num_rows = 40,
       .num_drafts = 4,
       .vocab_size = 77,
       .num_candidates = 20,
       .noise = 0.3,
       .strided = true},
  };
  std::vector<OpCase<AcceptSampled>> list;
  for (const Recipe& recipe : recipes) {
    list.push_back({.name = case_parts::sized("B", recipe.num_sequences) + case_parts::sized("_K", recipe.num_drafts) +
                            case_parts::sized("_V", recipe.vocab_size) + case_parts::sized("_C", recipe.num_candidates) +
                            (recipe.strided ? "_strided" : ""),
                    .make = [recipe](OperandMaker& maker) { return make_accept(maker, recipe); }});
  }
  return list;
}

}  // namespace foretoken
