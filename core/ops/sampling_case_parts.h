// Parts that the test cases of the sampling operators share: parameters of slots, and rows as process_logits leaves them.
#pragma once

#include <random>
#include <vector>

#include "core/op_case.h"
#include "core/ops/sampling_rules.h"

namespace foretoken::case_parts {

/// Random parameters of `num_slots` slots, by column; every fourth slot is greedy. `vocab_size` bounds top-k.
struct SlotParameters {
  SlotParameters(std::mt19937_64& generator, int64_t num_slots, int64_t vocab_size);

  std::vector<double> reals;     // [S, 6]
  std::vector<double> integers;  // [S, 3]
  std::vector<double> seeds;     // [S]
};

/// `count` slots of rows: each of [-1, num_slots], so some have none.
std::vector<int32_t> random_slots(std::mt19937_64& generator, int64_t count, int64_t num_slots);

/// A row of `vocab_size` float32 values with the largest at 0, about one in four of them -infinity.
std::vector<double> processed_row(std::mt19937_64& generator, int64_t vocab_size, double spread);

}  // namespace foretoken::case_parts
