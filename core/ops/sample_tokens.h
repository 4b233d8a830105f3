// One token per row, drawn from the distribution that its processed logits stand for.
#pragma once

#include <array>
#include <vector>

#include "core/op_schema.h"
#include "core/ops/sampling_rules.h"

namespace foretoken {

template <class Op>
struct OpCase;

/// With s = row_slots[t], w[v] = sampling_weight(logits[t, v]) and W = sum_v w[v]: token_ids[t] = the lowest v for which
/// w[0] + ... + w[v] > r, where r = multiply_high(random_bits(seeds[s], positions[t], kToken, 0), W) is uniform in [0, W). So v
/// has probability w[v] / W, and the token depends on the row, the seed and the position alone: not on the batch or the device.
/// At temperature 0, and where s is not one of the S slots: the lowest v of the largest logit (NaN never wins). A row without any
/// weight gives 0.
struct SampleTokens {
  Tensor logits;       // [T, V] F32, as ProcessLogits leaves them: the largest is 0 unless the temperature is
  Tensor row_slots;    // [T] I32
  Tensor positions;    // [T] I32
  Tensor reals;        // [S, 6] F32
  Tensor seeds;        // [S] I64
  Tensor token_ids;    // [T] I32
  Tensor weight_sums;  // [T] I64: W; 0 of greedy rows

  [[nodiscard]] std::array<const Tensor*, 7> operands() const {
    return {&logits, &row_slots, &positions, &reals, &seeds, &token_ids, &weight_sums};
  }
  static const OpSchema& schema();
  static std::vector<OpCase<SampleTokens>> cases();
};

/// Draft `draft_idx` of each sequence b of slot s = row_slots[b]. Where the slot samples its drafts (kDraftSampling, temperature
/// above 0): the distribution q is that of the first C tokens in the order of falling logits, equal ones by rising id, which
/// candidate_ids[b] lists by rising id, with their weights; tokens of weight 0 are left out. token_ids[b] is drawn from q as in
/// SampleTokens, with random_bits(seeds[s], positions[b], kDraft, draft_idx). Otherwise token_ids[b] is the best token and no
/// candidate is listed. Unused entries are id -1, weight 0.
struct SampleDrafts {
  Tensor logits;             // [B, V] F32, the drafter's, as ProcessLogits leaves them
  Tensor row_slots;          // [B] I32
  Tensor positions;          // [B] I32, of the newest token of each sequence: the same for all its drafts
  Tensor reals;              // [S, 6] F32
  Tensor integers;           // [S, 3] I32
  Tensor seeds;              // [S] I64
  Tensor token_ids;          // [B] I32
  Tensor candidate_ids;      // [B, C] I32; C <= kMaxDraftCandidates
  Tensor candidate_weights;  // [B, C] I64
  uint32_t draft_idx = 0;

  [[nodiscard]] std::array<const Tensor*, 9> operands() const {
    return {&logits, &row_slots, &positions, &reals, &integers, &seeds, &token_ids, &candidate_ids, &candidate_weights};
  }
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<SampleDrafts>> cases();
};

/// Throws InvalidArgument unless a draft distribution may have `count` candidates.
void check_draft_candidates(const char* op, int64_t count);

}  // namespace foretoken
