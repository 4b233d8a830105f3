// out[t] = table[ids[t]]
#pragma once

#include <array>
#include <vector>

#include "core/op_schema.h"

namespace foretoken {

template <class Op>
struct OpCase;

/// Rows of an embedding table. An id outside [0, V) gives a row of NaN, never a read out of bounds.
struct Embedding {
  Tensor ids;    // [T] I32
  Tensor table;  // [V, H] F32 or BF16
  Tensor out;    // [T, H] F32 or BF16

  [[nodiscard]] std::array<const Tensor*, 3> operands() const { return {&ids, &table, &out}; }
  static const OpSchema& schema();
  static std::vector<OpCase<Embedding>> cases();
};

}  // namespace foretoken
