#include "backends/cpu/reference/sampled_row.h"

#include <cmath>
#include <numeric>

#include "backends/cpu/reference/host_tensor.h"

namespace foretoken {

std::vector<uint64_t> weights_of_row(const Tensor& logits, int64_t t) {
  const HostTensor row(logits);
  std::vector<uint64_t> weights;
  for (int64_t v = 0; v < row.dim(1); ++v) weights.push_back(sampling_weight(static_cast<float>(row(t, v))));
  return weights;
}

uint64_t sum_of(std::span<const uint64_t> weights) { return std::accumulate(weights.begin(), weights.end(), uint64_t{0}); }

size_t draw(std::span<const uint64_t> weights, uint64_t bits) {
  const uint64_t number = multiply_high(bits, sum_of(weights));
  uint64_t sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (sum > number) return i;
  }
  return 0;
}

int64_t best_of_row(const Tensor& logits, int64_t t) {
  const HostTensor row(logits);
  int64_t best = -1;
  for (int64_t v = 0; v < row.dim(1); ++v) {
    if (!std::isnan(row(t, v)) && (best < 0 || row(t, v) > row(t, best))) best = v;
  }
  return best < 0 ? 0 : best;
}

int64_t wide_integer(const Tensor& tensor, int64_t i) { return reinterpret_cast<const int64_t*>(tensor.address())[i]; }

void set_wide_integer(const Tensor& tensor, int64_t i, int64_t value) { reinterpret_cast<int64_t*>(tensor.address())[i] = value; }

RowSlot::RowSlot(const Tensor& row_slots, int64_t t, const Tensor& reals) {
  const int64_t named = HostTensor(row_slots).integer(t);
  if (named < 0 || named >= reals.dim(0)) return;
  slot = named;
  temperature = HostTensor(reals)(slot, kTemperature);
}

}  // namespace foretoken
