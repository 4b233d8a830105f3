// What the sampler records into Programs.
#include "backends/ops.h"
#include "speculative/sampler.h"

namespace foretoken {

ProcessLogits Sampler::process(const Tensor& logits) const {
  ProcessLogits op;
  op.logits = logits;
  op.reals = reals_;
  op.integers = integers_;
  op.bias_ids = bias_ids_;
  op.bias_values = bias_values_;
  op.stop_ids = stop_ids_;
  op.counts = counts_;
  return op;
}

void Sampler::record_picks(CommandList& cmd, const Tensor& logits, const Tensor& token_ids, const Tensor& picks) const {
  const int64_t rows = logits.dim(0);
  const Tensor row_slots = round_.tensor(row_slots_).rows(0, rows);
  const Tensor positions = round_.tensor(positions_).rows(0, rows);
  ProcessLogits op = process(logits);
  op.row_slots = row_slots;
  op.positions = positions;
  op.history_ids = token_ids;
  op.history = round_.tensor(history_).rows(0, rows);
  if (masks_) {
    op.mask_rows = round_.tensor(mask_rows_).rows(0, rows);
    op.masks = masks_;
  }
  ops::dispatch(cmd, op);
  ops::dispatch(cmd, SampleTokens{.logits = logits,
                                  .row_slots = row_slots,
                                  .positions = positions,
                                  .reals = reals_,
                                  .seeds = seeds_,
                                  .token_ids = picks,
                                  .weight_sums = weight_sums_.rows(0, rows)});
}

void Sampler::record_accept(CommandList& cmd, const Tensor& logits, const Tensor& token_ids, const Tensor& query_start_loc,
                            const Tensor& picks, const Tensor& num_accepted) const {
  const int64_t rows = logits.dim(0);
  ops::dispatch(cmd, AcceptSampled{.logits = logits,
                                   .weight_sums = weight_sums_.rows(0, rows),
                                   .token_ids = token_ids,
                                   .row_slots = round_.tensor(row_slots_).rows(0, rows),
                                   .positions = round_.tensor(positions_).rows(0, rows),
                                   .query_start_loc = query_start_loc,
                                   .block_rows = round_.tensor(block_rows_).rows(0, num_accepted.dim(0)),
                                   .candidate_ids = draft_ids_,
                                   .candidate_weights = draft_weights_,
                                   .reals = reals_,
                                   .integers = integers_,
                                   .seeds = seeds_,
                                   .picks = picks,
                                   .num_accepted = num_accepted});
}

void Sampler::record_drafts(CommandList& cmd, int64_t draft_idx, const Tensor& logits, const Tensor& draft_token_ids) const {
  const int64_t parts = logits.dim(0);
  const Tensor row_slots = round_.tensor(draft_slots_).rows(0, parts);
  ProcessLogits op = process(logits);
  op.row_slots = row_slots;
  op.positions = round_.tensor(draft_positions_).at(draft_idx).rows(0, parts);
  op.history_ids = draft_token_ids.reshape({draft_token_ids.shape().num_elements()});
  op.history = round_.tensor(draft_history_).at(draft_idx).rows(0, parts);
  op.history_stride = static_cast<uint32_t>(draft_token_ids.dim(1));
  ops::dispatch(cmd, op);
  ops::dispatch(cmd, SampleDrafts{.logits = logits,
                                  .row_slots = row_slots,
                                  .positions = round_.tensor(draft_positions_).at(0).rows(0, parts),
                                  .reals = reals_,
                                  .integers = integers_,
                                  .seeds = seeds_,
                                  .token_ids = draft_token_ids.at(draft_idx).rows(0, parts),
                                  .candidate_ids = draft_ids_.at(draft_idx).rows(0, parts),
                                  .candidate_weights = draft_weights_.at(draft_idx).rows(0, parts),
                                  .draft_idx = static_cast<uint32_t>(draft_idx)});
}

}  // namespace foretoken
