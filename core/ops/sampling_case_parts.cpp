#include "core/ops/sampling_case_parts.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "core/ops/case_parts.h"

namespace foretoken::case_parts {
namespace {

double one_of(std::mt19937_64& generator, std::initializer_list<double> choices) {
  return choices.begin()[draw(generator, 0, static_cast<int64_t>(choices.size()) - 1)];
}

}  // namespace

SlotParameters::SlotParameters(std::mt19937_64& generator, int64_t num_slots, int64_t vocab_size) {
  for (int64_t slot = 0; slot < num_slots; ++slot) {
    double row[kNumSamplingReals];
    row[kTemperature] = slot % 4 == 3 ? 0.0 : one_of(generator, {0.3, 0.7, 1.0, 1.7, 100.0});
    row[kTopP] = one_of(generator, {1.0, 0.95, 0.8, 0.5, 1e-3, 1e-12});
    row[kMinP] = one_of(generator, {0.0, 0.0, 0.05, 0.3, 1.0});
    row[kRepetitionPenalty] = one_of(generator, {1.0, 1.0, 1.1, 1.5, 0.7});
    row[kPresencePenalty] = one_of(generator, {0.0, 0.0, 0.5, -0.3});
    row[kFrequencyPenalty] = one_of(generator, {0.0, 0.0, 0.25, -0.125});
    reals.insert(reals.end(), std::begin(row), std::end(row));
    double integer_row[kNumSamplingIntegers];
    integer_row[kTopK] = one_of(generator, {0, 0, 1, 3, 20, static_cast<double>(vocab_size), 1e6});
    integer_row[kFirstStopRow] = static_cast<double>(draw(generator, 0, 200));
    integer_row[kDraftSampling] = static_cast<double>(draw(generator, 0, 2));
    integers.insert(integers.end(), std::begin(integer_row), std::end(integer_row));
    seeds.push_back(static_cast<double>(generator() >> 11));  // as many bits as a double has
  }
}

std::vector<int32_t> random_slots(std::mt19937_64& generator, int64_t count, int64_t num_slots) {
  std::vector<int32_t> slots(static_cast<size_t>(count));
  for (int32_t& slot : slots)
    slot = draw(generator, 0, 9) == 0 ? draw(generator, -1, num_slots) : draw(generator, 0, num_slots - 1);
  return slots;
}

std::vector<double> processed_row(std::mt19937_64& generator, int64_t vocab_size, double spread) {
  std::normal_distribution<double> normal;  // times the spread, which may be 0
  std::vector<double> row(static_cast<size_t>(vocab_size));
  for (double& x : row) x = static_cast<double>(static_cast<float>(spread * normal(generator)));
  const auto best = static_cast<float>(*std::ranges::max_element(row));
  for (double& x : row) {
    const bool stays = static_cast<float>(x) == best || generator() % 4 != 0;
    x = stays ? static_cast<double>(static_cast<float>(x) - best) : -std::numeric_limits<double>::infinity();
  }
  return row;
}

}  // namespace foretoken::case_parts
