// process_logits, count_tokens, sample_tokens, sample_drafts, accept_sampled.
#include "backends/gpu/gpu_ops.h"
#include "backends/gpu/ops/operands.h"
#include "backends/gpu/sample_params.h"
#include "core/ops/accept_sampled.h"
#include "core/ops/process_logits.h"
#include "core/ops/sample_tokens.h"

namespace foretoken::gpu {
namespace {

void add_row_ops(OpTable& table, const KernelModule& module) {
  table.add<ProcessLogits>(
      "gpu", [kernel = module.resolve<ProcessLogitsParams>("process_logits")](CommandList& cmd, const ProcessLogits& op) {
        kernel(cmd, Grid{extent(op.logits, 0)},
               {.logits = op.logits.address(),
                .row_slots = op.row_slots.address(),
                .positions = op.positions.address(),
                .reals = op.reals.address(),
                .integers = op.integers.address(),
                .bias_ids = op.bias_ids.address(),
                .bias_values = op.bias_values.address(),
                .stop_ids = op.stop_ids.address(),
                .counts = op.counts.address(),
                .history_ids = op.history_ids.address(),
                .history = op.history.address(),
                .mask_rows = op.mask_rows.address(),
                .masks = op.masks.address(),
                .logits_stride = stride(op.logits),
                .vocab_size = extent(op.logits, 1),
                .num_slots = extent(op.reals, 0),
                .num_biases = extent(op.bias_ids, 1),
                .num_stops = extent(op.stop_ids, 1),
                .history_stride = op.history_stride,
                .num_masks = op.masks ? extent(op.masks, 0) : 0},
               accesses_of(op));
      });

  table.add<CountTokens>("gpu",
                         [kernel = module.resolve<CountTokensParams>("count_tokens")](CommandList& cmd, const CountTokens& op) {
                           kernel(cmd, Grid{ceil_div(extent(op.slots, 0), kCountThreads)},
                                  {.slots = op.slots.address(),
                                   .token_ids = op.token_ids.address(),
                                   .counts = op.counts.address(),
                                   .num_tokens = extent(op.slots, 0),
                                   .num_slots = extent(op.counts, 0),
                                   .vocab_size = extent(op.counts, 1),
                                   .reserved = 0},
                                  accesses_of(op));
                         });
}

void add_draw_ops(OpTable& table, const KernelModule& module) {
  table.add<SampleTokens>(
      "gpu", [kernel = module.resolve<SampleTokensParams>("sample_tokens")](CommandList& cmd, const SampleTokens& op) {
        kernel(cmd, Grid{extent(op.logits, 0)},
               {.logits = op.logits.address(),
                .row_slots = op.row_slots.address(),
                .positions = op.positions.address(),
                .reals = op.reals.address(),
                .seeds = op.seeds.address(),
                .token_ids = op.token_ids.address(),
                .weight_sums = op.weight_sums.address(),
                .logits_stride = stride(op.logits),
                .vocab_size = extent(op.logits, 1),
                .num_slots = extent(op.reals, 0)},
               accesses_of(op));
      });

  table.add<SampleDrafts>(
      "gpu", [kernel = module.resolve<SampleDraftsParams>("sample_drafts")](CommandList& cmd, const SampleDrafts& op) {
        kernel(cmd, Grid{extent(op.logits, 0)},
               {.logits = op.logits.address(),
                .row_slots = op.row_slots.address(),
                .positions = op.positions.address(),
                .reals = op.reals.address(),
                .integers = op.integers.address(),
                .seeds = op.seeds.address(),
                .token_ids = op.token_ids.address(),
                .candidate_ids = op.candidate_ids.address(),
                .candidate_weights = op.candidate_weights.address(),
                .logits_stride = stride(op.logits),
                .vocab_size = extent(op.logits, 1),
                .num_slots = extent(op.reals, 0),
                .num_candidates = extent(op.candidate_ids, 1),
                .draft_idx = op.draft_idx},
               accesses_of(op));
      });

  table.add<AcceptSampled>(
      "gpu", [kernel = module.resolve<AcceptSampledParams>("accept_sampled")](CommandList& cmd, const AcceptSampled& op) {
        kernel(cmd, Grid{extent(op.num_accepted, 0)},
               {.logits = op.logits.address(),
                .weight_sums = op.weight_sums.address(),
                .token_ids = op.token_ids.address(),
                .row_slots = op.row_slots.address(),
                .positions = op.positions.address(),
                .query_start_loc = op.query_start_loc.address(),
                .block_rows = op.block_rows.address(),
                .candidate_ids = op.candidate_ids.address(),
                .candidate_weights = op.candidate_weights.address(),
                .reals = op.reals.address(),
                .integers = op.integers.address(),
                .seeds = op.seeds.address(),
                .picks = op.picks.address(),
                .num_accepted = op.num_accepted.address(),
                .logits_stride = stride(op.logits),
                .vocab_size = extent(op.logits, 1),
                .num_slots = extent(op.reals, 0),
                .num_drafts = extent(op.candidate_ids, 0),
                .num_block_rows = extent(op.candidate_ids, 1),
                .num_candidates = extent(op.candidate_ids, 2),
                .reserved = 0},
               accesses_of(op));
      });
}

}  // namespace

void add_sample_ops(OpTable& table, const KernelModule& module) {
  add_row_ops(table, module);
  add_draw_ops(table, module);
}

}  // namespace foretoken::gpu
