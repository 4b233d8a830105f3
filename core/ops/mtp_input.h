// out[t] = [rms(table[ids[t]]; embedding_norm) | rms(hidden[hidden_rows[t]]; hidden_norm)], with rms as in rms_norm.h: the rows
// that the fc of a multi-token-prediction head reads, the embedding half first, as Qwen checkpoints store fc.
#pragma once

#include <array>
#include <vector>

#include "core/op_schema.h"

namespace foretoken {

template <class Op>
struct OpCase;

/// Each half has the bits of Embedding to F32 and RmsNorm, or of RmsNorm. An id outside [0, V) and a row outside [0, N) give a
/// half of NaN, never a read out of bounds.
struct MtpInput {
  Tensor ids;             // [T] I32
  Tensor table;           // [V, H] F32 or BF16
  Tensor hidden;          // [N, H]
  Tensor hidden_rows{};   // [T] I32: the row of `hidden` of each row; absent: row t, and N = T
  Tensor embedding_norm;  // [H] F32
  Tensor hidden_norm;     // [H] F32
  Tensor out;             // [T, 2*H]
  float eps = 1e-6F;

  [[nodiscard]] std::array<const Tensor*, 7> operands() const {
    return {&ids, &table, &hidden, &hidden_rows, &embedding_norm, &hidden_norm, &out};
  }
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<MtpInput>> cases();
};

}  // namespace foretoken
