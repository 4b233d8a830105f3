#include "core/ops/sample_tokens.h"

#include "core/op_case.h"
#include "core/ops/case_parts.h"
#include "core/ops/sampling_case_parts.h"

namespace foretoken {
namespace {

struct Recipe {
  std::string name;
  int64_t num_rows;
  int64_t vocab_size;
  double spread = 3.0;
  int64_t num_candidates = 1;  // of sample_drafts
  bool strided = false;
};

constexpr int64_t kSlots = 8;

Fill processed_rows(const Recipe& recipe) {
  return [recipe](std::mt19937_64& generator, std::span<double> values) {
    for (int64_t t = 0; t < recipe.num_rows; ++t) {
      const std::vector<double> row = case_parts::processed_row(generator, recipe.vocab_size, recipe.spread);
      std::ranges::copy(row, values.subspan(static_cast<size_t>(t * recipe.vocab_size)).begin());
    }
  };
}

Tensor make_logits(OperandMaker& maker, const Recipe& recipe) {
  const Shape shape{recipe.num_rows, recipe.vocab_size};
  return recipe.strided ? maker.strided(DType::kF32, shape, recipe.vocab_size + 5, processed_rows(recipe))
                        : maker.input(DType::kF32, shape, processed_rows(recipe));
}

std::string name_of(const Recipe& recipe) {
  return recipe.name + case_parts::sized("T", recipe.num_rows) + case_parts::sized("_V", recipe.vocab_size) +
         (recipe.strided ? "_strided" : "");
}

}  // namespace

std::vector<OpCase<SampleTokens>> SampleTokens::cases() {
  const std::vector<Recipe> recipes = {{.name = "", .num_rows = 3, .vocab_size = 248320},
                                       {.name = "flat_", .num_rows = 2, .vocab_size = 248320, .spread = 0.1},
                                       {.name = "", .num_rows = 64, .vocab_size = 1003},
                                       {.name = "", .num_rows = 40, .vocab_size = 16, .spread = 1.0},
                                       {.name = "", .num_rows = 2, .vocab_size = 1},
                                       {.name = "", .num_rows = 9, .vocab_size = 4097, .strided = true},
                                       {.name = "ties_", .num_rows = 16, .vocab_size = 2100, .spread = 0.0},
                                       {.name = "steep_", .num_rows = 8, .vocab_size = 700, .spread = 1e4}};
  std::vector<OpCase<SampleTokens>> list;
  for (const Recipe& recipe : recipes) {
    list.push_back({.name = name_of(recipe), .make = [recipe](OperandMaker& maker) {
                      std::mt19937_64 generator(maker.seed());
                      const int64_t T = recipe.num_rows;
                      const case_parts::SlotParameters slots(generator, kSlots, recipe.vocab_size);
                      SampleTokens op;
                      op.logits = make_logits(maker, recipe);
                      op.row_slots =
                          maker.input(DType::kI32, {T}, case_parts::listed(case_parts::random_slots(generator, T, kSlots)));
                      op.positions = maker.input(DType::kI32, {T}, fill::integers(0, 1 << 20));
                      op.reals = maker.input(DType::kF32, {kSlots, kNumSamplingReals}, fill::values(slots.reals));
                      op.seeds = maker.input(DType::kI64, {kSlots}, fill::values(slots.seeds));
                      op.token_ids = maker.output(DType::kI32, {T});
                      op.weight_sums = maker.output(DType::kI64, {T});
                      return op;
                    }});
  }
  return list;
}

std::vector<OpCase<SampleDrafts>> SampleDrafts::cases() {
  const std::vector<Recipe> recipes = {
      {.name = "C128_", .num_rows = 3, .vocab_size = 248320, .num_candidates = 128},
      {.name = "C256_", .num_rows = 8, .vocab_size = 5003, .num_candidates = 256},
      {.name = "C1_", .num_rows = 16, .vocab_size = 100, .num_candidates = 1},
      {.name = "C40_", .num_rows = 9, .vocab_size = 30, .num_candidates = 40},
      {.name = "C7_ties_", .num_rows = 16, .vocab_size = 700, .spread = 0.0, .num_candidates = 7},
      {.name = "C33_", .num_rows = 16, .vocab_size = 333, .spread = 1.0, .num_candidates = 33, .strided = true},
      {.name = "C64_steep_", .num_rows = 8, .vocab_size = 700, .spread = 40.0, .num_candidates = 64}};
  std::vector<OpCase<SampleDrafts>> list;
  for (const Recipe& recipe : recipes) {
    list.push_back({.name = name_of(recipe), .make = [recipe](OperandMaker& maker) {
                      std::mt19937_64 generator(maker.seed());
                      const int64_t B = recipe.num_rows;
                      const case_parts::SlotParameters slots(generator, kSlots, recipe.vocab_size);
                      SampleDrafts op;
                      op.logits = make_logits(maker, recipe);
                      op.row_slots =
                          maker.input(DType::kI32, {B}, case_parts::listed(case_parts::random_slots(generator, B, kSlots)));
                      op.positions = maker.input(DType::kI32, {B}, fill::integers(0, 1 << 20));
                      op.reals = maker.input(DType::kF32, {kSlots, kNumSamplingReals}, fill::values(slots.reals));
                      op.integers = maker.input(DType::kI32, {kSlots, kNumSamplingIntegers}, fill::values(slots.integers));
                      op.seeds = maker.input(DType::kI64, {kSlots}, fill::values(slots.seeds));
                      op.token_ids = maker.output(DType::kI32, {B});
                      op.candidate_ids = maker.output(DType::kI32, {B, recipe.num_candidates});
                      op.candidate_weights = maker.output(DType::kI64, {B, recipe.num_candidates});
                      op.draft_idx = 3;
                      return op;
                    }});
  }
  return list;
}

}  // namespace foretoken
