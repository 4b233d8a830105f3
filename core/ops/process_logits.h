// From the logits of a model to those that are sampled: what a request's parameters do to a row, and the histories that they
// depend on.
#pragma once

#include <array>
#include <vector>

#include "core/op_schema.h"
#include "core/ops/sampling_rules.h"

namespace foretoken {

template <class Op>
struct OpCase;

/// Works on each row t in place with the parameters of slot s = row_slots[t]; a row whose slot is not one of the S stays as it
/// is. With l the row's logits (NaN counts as -infinity), in this order, all in float32 operations, none of them fused:
/// 1. l[bias_ids[s, i]] += bias_values[s, i]; ids outside the vocabulary are skipped, and no id is listed twice.
/// 2. l[v] = -infinity where the row has a mask, mask_rows[t] >= 0, whose bit v % 32 of word v / 32 is 0; and for the stop ids of
///    the slot where positions[t] < integers[s, kFirstStopRow].
/// 3. With n(v) the output's count of v, those among history[t] included, and seen(v): n(v) > 0 or v is in the prompt:
///    l[v] = l[v] > 0 ? l[v] / repetition : l[v] * repetition where seen(v); then l[v] = l[v] - frequency * n(v) and
///    l[v] = l[v] - presence where n(v) > 0.
/// 4. At temperature 0 the row is ready. Otherwise x[v] = (l[v] - max l) / temperature; 0 where l[v] = max l.
/// 5. In the order of falling x, equal ones by rising id: top-k (where k > 0) keeps the first k; of those, with weights w =
///    sampling_weight(x) and their sum W, top-p (where p < 1) keeps the first and each token before which less than
///    share_of(W, p) lies; of those, min-p (where > 0) keeps the ones with w >= share_of(2^40, min_p). All others
///    become -infinity.
/// So the bits of a row depend on the row and its slot alone, and are the same on every device.
struct ProcessLogits {
  Tensor logits;       // [T, V] F32, updated; V <= 2^22
  Tensor row_slots;    // [T] I32
  Tensor positions;    // [T] I32, of the row's input token in its sequence
  Tensor reals;        // [S, 6] F32, columns: SamplingReal
  Tensor integers;     // [S, 3] I32, columns: SamplingInteger
  Tensor bias_ids;     // [S, M] I32, -1: none
  Tensor bias_values;  // [S, M] F32
  Tensor stop_ids;     // [S, E] I32, -1: none
  Tensor counts;       // [S, V] I32: output count, and kInPrompt
  Tensor history_ids;  // [N] I32
  Tensor history;      // [T, 2] I32, begin and count: history_ids[begin + i * history_stride], i < count <= 32, are output too
  Tensor mask_rows;    // [T] I32, rows of `masks`, -1: none; may be absent, together with masks
  Tensor masks;        // [R, (V+31)/32] I32, a bit per token: allowed
  uint32_t history_stride = 1;

  [[nodiscard]] std::array<const Tensor*, 13> operands() const {
    return {&logits,   &row_slots, &positions,   &reals,   &integers,  &bias_ids, &bias_values,
            &stop_ids, &counts,    &history_ids, &history, &mask_rows, &masks};
  }
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<ProcessLogits>> cases();
};

/// counts[slots[i], token_ids[i]] += 1 for all i; entries whose slot or id does not exist are skipped.
struct CountTokens {
  Tensor slots;      // [N] I32, -1: none
  Tensor token_ids;  // [N] I32
  Tensor counts;     // [S, V] I32, updated

  [[nodiscard]] std::array<const Tensor*, 3> operands() const { return {&slots, &token_ids, &counts}; }
  static const OpSchema& schema();
  static std::vector<OpCase<CountTokens>> cases();
};

}  // namespace foretoken
