// Random weights that are the same bytes everywhere: element i of tensor `tensor_id` is m * 2^exponent with m an integer in
// [-127, 127] taken from a counter-based integer hash of (seed, tensor_id, i). Exact in BF16 and F32.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/op_schema.h"

namespace foretoken {

template <class Op>
struct OpCase;

struct RandomFill {
  Tensor out;  // [N] F32 or BF16
  uint64_t seed = 0;
  uint64_t tensor_id = 0;
  int exponent = 0;
  float offset = 0.0F;  // added to each element, rounded to the dtype

  [[nodiscard]] std::array<const Tensor*, 1> operands() const { return {&out}; }
  static const OpSchema& schema();
  static std::vector<OpCase<RandomFill>> cases();
};

/// The integer m of element `index`: two rounds of splitmix64 finalisation over the mixed counter, reduced to [-127, 127].
[[nodiscard]] constexpr int random_weight_integer(uint64_t seed, uint64_t tensor_id, uint64_t index) {
  uint64_t z = seed * 0x9e3779b97f4a7c15ULL + tensor_id * 0xd1b54a32d192ed03ULL + index;
  for (int round = 0; round < 2; ++round) {
    z += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    z ^= z >> 31;
  }
  return static_cast<int>((z >> 32) * 255 >> 32) - 127;
}

}  // namespace foretoken
