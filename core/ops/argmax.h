// token_ids[t] = argmax_v logits[t, v], ties to the lowest v; NaN never wins, a row of NaN gives 0.
#pragma once

#include <array>
#include <vector>

#include "core/op_schema.h"

namespace foretoken {

template <class Op>
struct OpCase;

struct Argmax {
  Tensor logits;     // [T, V] F32
  Tensor token_ids;  // [T] I32

  [[nodiscard]] std::array<const Tensor*, 2> operands() const { return {&logits, &token_ids}; }
  static const OpSchema& schema();
  static std::vector<OpCase<Argmax>> cases();
};

}  // namespace foretoken
