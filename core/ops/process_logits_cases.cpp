#include <cmath>
#include <limits>

#include "core/op_case.h"
#include "core/ops/case_parts.h"
#include "core/ops/process_logits.h"
#include "core/ops/sampling_case_parts.h"

namespace foretoken {
namespace {

struct Recipe {
  std::string name;
  int64_t num_rows;
  int64_t vocab_size;
  Fill logits;
  int64_t num_slots = 8;
  bool masked = false;
  bool strided = false;
  int64_t history_stride = 1;
};

/// Mostly 0, else a few times in the output, in the prompt, or both.
Fill sparse_counts() {
  return [](std::mt19937_64& generator, std::span<double> values) {
    for (double& value : values) {
      const int32_t kind = case_parts::draw(generator, 0, 31);
      const bool is_in_prompt = kind % 2 != 0;
      const bool is_generated = kind / 2 != 0;
      value = kind > 3 ? 0.0 : (is_in_prompt ? kInPrompt : 0) + (is_generated ? case_parts::draw(generator, 1, 5) : 0);
    }
  };
}

/// Ids of each slot, all different, some of them -1 or outside the vocabulary.
std::vector<std::vector<int32_t>> id_lists(std::mt19937_64& generator, int64_t num_slots, int64_t vocab_size, int64_t width) {
  std::vector<std::vector<int32_t>> lists;
  for (int64_t slot = 0; slot < num_slots; ++slot) {
    std::vector<int32_t> ids = case_parts::sample_distinct(generator, std::max(vocab_size, width), width);
    for (int32_t& id : ids) {
      if (generator() % 4 == 0) id = generator() % 2 == 0 ? -1 : static_cast<int32_t>(vocab_size) + id;
    }
    lists.push_back(std::move(ids));
  }
  return lists;
}

/// The drafts before each row of a block, in a list of `length` ids: up to 5 of them, or none.
std::vector<std::vector<int32_t>> histories(std::mt19937_64& generator, int64_t num_rows, int64_t length, int64_t stride) {
  std::vector<std::vector<int32_t>> ranges;
  for (int64_t row = 0; row < num_rows; ++row) {
    const int32_t begin = case_parts::draw(generator, 0, length - 1);
    ranges.push_back({begin, case_parts::draw(generator, 0, std::min<int64_t>(5, (length - begin) / stride))});
  }
  return ranges;
}

ProcessLogits make_process(OperandMaker& maker, const Recipe& recipe) {
  using case_parts::listed;
  using case_parts::listed_rows;
  constexpr int64_t kBiases = 7, kStops = 3, kHistory = 40, kMasks = 3;
  const int64_t T = recipe.num_rows, V = recipe.vocab_size, S = recipe.num_slots;
  std::mt19937_64 generator(maker.seed());
  const case_parts::SlotParameters slots(generator, S, V);
  const auto positions = [](std::mt19937_64& random, std::span<double> values) { fill::integers(0, 199)(random, values); };
  ProcessLogits op;
  op.logits = recipe.strided ? maker.strided(DType::kF32, {T, V}, V + 13, recipe.logits)
                             : maker.in_out(DType::kF32, {T, V}, recipe.logits);
  op.row_slots = maker.input(DType::kI32, {T}, listed(case_parts::random_slots(generator, T, S)));
  op.positions = maker.input(DType::kI32, {T}, positions);
  op.reals = maker.input(DType::kF32, {S, kNumSamplingReals}, fill::values(slots.reals));
  op.integers = maker.input(DType::kI32, {S, kNumSamplingIntegers}, fill::values(slots.integers));
  op.bias_ids = maker.input(DType::kI32, {S, kBiases}, listed_rows(id_lists(generator, S, V, kBiases)));
  op.bias_values = maker.input(DType::kF32, {S, kBiases}, fill::normal(2.0));
  op.stop_ids = maker.input(DType::kI32, {S, kStops}, listed_rows(id_lists(generator, S, V, kStops)));
  op.counts = maker.input(DType::kI32, {S, V}, sparse_counts());
  // Few different ids, so that a block repeats some.
  op.history_ids = maker.input(DType::kI32, {kHistory}, fill::integers(-1, std::min<int64_t>(V, 12)));
  op.history = maker.input(DType::kI32, {T, 2}, listed_rows(histories(generator, T, kHistory, recipe.history_stride)));
  op.history_stride = static_cast<uint32_t>(recipe.history_stride);
  if (recipe.masked) {
    op.mask_rows = maker.input(DType::kI32, {T}, fill::integers(-1, kMasks - 1));
    op.masks = maker.input(DType::kI32, {kMasks, (V + 31) / 32}, fill::integers(INT32_MIN, INT32_MAX));
  }
  return op;
}

}  // namespace

std::vector<OpCase<ProcessLogits>> ProcessLogits::cases() {
  using case_parts::with_patch;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<Recipe> recipes = {
      {.name = "T2_V248320", .num_rows = 2, .vocab_size = 248320, .logits = fill::normal(3.0), .num_slots = 3},
      {.name = "T40_V1003", .num_rows = 40, .vocab_size = 1003, .logits = fill::normal(3.0), .num_slots = 16},
      {.name = "T7_V17", .num_rows = 7, .vocab_size = 17, .logits = fill::normal(2.0)},
      {.name = "T3_V1", .num_rows = 3, .vocab_size = 1, .logits = fill::normal(2.0)},
      {.name = "T9_V4100_masked", .num_rows = 9, .vocab_size = 4100, .logits = fill::normal(3.0), .masked = true},
      {.name = "T5_V333_masked_strided",
       .num_rows = 5,
       .vocab_size = 333,
       .logits = fill::normal(3.0),
       .masked = true,
       .strided = true},
      {.name = "ties", .num_rows = 24, .vocab_size = 700, .logits = fill::integers(-3, 3), .history_stride = 6},
      {.name = "all_equal", .num_rows = 16, .vocab_size = 2100, .logits = fill::constant(4.0)},
      {.name = "flat", .num_rows = 8, .vocab_size = 5000, .logits = fill::normal(1e-3)},
      {.name = "steep", .num_rows = 8, .vocab_size = 5000, .logits = fill::normal(1e4)},
      {.name = "nan_and_infinities",
       .num_rows = 8,
       .vocab_size = 100,
       .logits =
           with_patch(with_patch(with_patch(fill::normal(3.0), 30, 170, std::nan("")), 330, 2, kInfinity), 400, 150, -kInfinity)},
      {.name = "nothing_left", .num_rows = 8, .vocab_size = 100, .logits = fill::constant(-kInfinity)},
  };
  std::vector<OpCase<ProcessLogits>> list;
  for (const Recipe& recipe : recipes) {
    list.push_back({.name = recipe.name, .make = [recipe](OperandMaker& maker) { return make_process(maker, recipe); }});
  }
  return list;
}

std::vector<OpCase<CountTokens>> CountTokens::cases() {
  std::vector<OpCase<CountTokens>> list;
  const auto add = [&list](int64_t count, int64_t num_slots, int64_t vocab_size) {
    list.push_back(
        {.name = case_parts::sized("N", count) + case_parts::sized("_V", vocab_size), .make = [=](OperandMaker& maker) {
           CountTokens op;
           op.slots = maker.input(DType::kI32, {count}, fill::integers(-1, num_slots));
           op.token_ids = maker.input(DType::kI32, {count}, fill::integers(-1, vocab_size));
           op.counts = maker.in_out(DType::kI32, {num_slots, vocab_size}, sparse_counts());
           return op;
         }});
  };
  add(1, 1, 16);
  add(300, 3, 7);
  add(64, 64, 1000);
  add(1088, 4, 5003);
  return list;
}

}  // namespace foretoken
