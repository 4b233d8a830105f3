// process_logits, count_tokens, sample_tokens, sample_drafts, accept_sampled.
#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/kernels/sample_params.h"
#include "backends/cpu/ops/operands.h"
#include "core/ops/accept_sampled.h"
#include "core/ops/process_logits.h"
#include "core/ops/sample_tokens.h"

namespace foretoken::cpu {
namespace {

void add_row_ops(OpTable& table, const KernelModule& module) {
  table.add<ProcessLogits>(
      "cpu", [kernel = module.resolve<ProcessLogitsParams>("process_logits")](CommandList& cmd, const ProcessLogits& op) {
        kernel(cmd, items(dimension(op.logits, 0)),
               {.logits = pointer<float>(op.logits),
                .row_slots = pointer<const int32_t>(op.row_slots),
                .positions = pointer<const int32_t>(op.positions),
                .reals = pointer<const float>(op.reals),
                .integers = pointer<const int32_t>(op.integers),
                .bias_ids = pointer<const int32_t>(op.bias_ids),
                .bias_values = pointer<const float>(op.bias_values),
                .stop_ids = pointer<const int32_t>(op.stop_ids),
                .counts = pointer<const int32_t>(op.counts),
                .history_ids = pointer<const int32_t>(op.history_ids),
                .history = pointer<const int32_t>(op.history),
                .mask_rows = pointer<const int32_t>(op.mask_rows),
                .masks = pointer<const uint32_t>(op.masks),
                .logits_stride = stride(op.logits),
                .vocab_size = dimension(op.logits, 1),
                .num_slots = dimension(op.reals, 0),
                .num_biases = dimension(op.bias_ids, 1),
                .num_stops = dimension(op.stop_ids, 1),
                .history_stride = op.history_stride,
                .num_masks = op.masks ? dimension(op.masks, 0) : 0},
               accesses_of(op));
      });

  table.add<CountTokens>("cpu",
                         [kernel = module.resolve<CountTokensParams>("count_tokens")](CommandList& cmd, const CountTokens& op) {
                           kernel(cmd, items(1),
                                  {.slots = pointer<const int32_t>(op.slots),
                                   .token_ids = pointer<const int32_t>(op.token_ids),
                                   .counts = pointer<int32_t>(op.counts),
                                   .num_tokens = dimension(op.slots, 0),
                                   .num_slots = dimension(op.counts, 0),
                                   .vocab_size = dimension(op.counts, 1)},
                                  accesses_of(op));
                         });
}

void add_draw_ops(OpTable& table, const KernelModule& module) {
  table.add<SampleTokens>(
      "cpu", [kernel = module.resolve<SampleTokensParams>("sample_tokens")](CommandList& cmd, const SampleTokens& op) {
        kernel(cmd, items(dimension(op.logits, 0)),
               {.logits = pointer<const float>(op.logits),
                .row_slots = pointer<const int32_t>(op.row_slots),
                .positions = pointer<const int32_t>(op.positions),
                .reals = pointer<const float>(op.reals),
                .seeds = pointer<const int64_t>(op.seeds),
                .token_ids = pointer<int32_t>(op.token_ids),
                .weight_sums = pointer<uint64_t>(op.weight_sums),
                .logits_stride = stride(op.logits),
                .vocab_size = dimension(op.logits, 1),
                .num_slots = dimension(op.reals, 0)},
               accesses_of(op));
      });

  table.add<SampleDrafts>(
      "cpu", [kernel = module.resolve<SampleDraftsParams>("sample_drafts")](CommandList& cmd, const SampleDrafts& op) {
        kernel(cmd, items(dimension(op.logits, 0)),
               {.logits = pointer<const float>(op.logits),
                .row_slots = pointer<const int32_t>(op.row_slots),
                .positions = pointer<const int32_t>(op.positions),
                .reals = pointer<const float>(op.reals),
                .integers = pointer<const int32_t>(op.integers),
                .seeds = pointer<const int64_t>(op.seeds),
                .token_ids = pointer<int32_t>(op.token_ids),
                .candidate_ids = pointer<int32_t>(op.candidate_ids),
                .candidate_weights = pointer<uint64_t>(op.candidate_weights),
                .logits_stride = stride(op.logits),
                .vocab_size = dimension(op.logits, 1),
                .num_slots = dimension(op.reals, 0),
                .num_candidates = dimension(op.candidate_ids, 1),
                .draft_idx = op.draft_idx},
               accesses_of(op));
      });

  table.add<AcceptSampled>(
      "cpu", [kernel = module.resolve<AcceptSampledParams>("accept_sampled")](CommandList& cmd, const AcceptSampled& op) {
        kernel(cmd, items(dimension(op.num_accepted, 0)),
               {.logits = pointer<const float>(op.logits),
                .weight_sums = pointer<const uint64_t>(op.weight_sums),
                .token_ids = pointer<const int32_t>(op.token_ids),
                .row_slots = pointer<const int32_t>(op.row_slots),
                .positions = pointer<const int32_t>(op.positions),
                .query_start_loc = pointer<const int32_t>(op.query_start_loc),
                .block_rows = pointer<const int32_t>(op.block_rows),
                .candidate_ids = pointer<const int32_t>(op.candidate_ids),
                .candidate_weights = pointer<const uint64_t>(op.candidate_weights),
                .reals = pointer<const float>(op.reals),
                .integers = pointer<const int32_t>(op.integers),
                .seeds = pointer<const int64_t>(op.seeds),
                .picks = pointer<int32_t>(op.picks),
                .num_accepted = pointer<int32_t>(op.num_accepted),
                .logits_stride = stride(op.logits),
                .vocab_size = dimension(op.logits, 1),
                .num_slots = dimension(op.reals, 0),
                .num_drafts = dimension(op.candidate_ids, 0),
                .num_block_rows = dimension(op.candidate_ids, 1),
                .num_candidates = dimension(op.candidate_ids, 2)},
               accesses_of(op));
      });
}

}  // namespace

void add_sample_ops(OpTable& table, const KernelModule& module) {
  add_row_ops(table, module);
  add_draw_ops(table, module);
}

}  // namespace foretoken::cpu
