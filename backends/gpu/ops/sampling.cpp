// argmax, select_tokens, accept_drafts, embedding, random_fill.
#include "backends/gpu/sampling_params.h"

#include <cmath>

#include "backends/gpu/gpu_ops.h"
#include "backends/gpu/ops/operands.h"
#include "core/ops/accept.h"
#include "core/ops/argmax.h"
#include "core/ops/embedding.h"
#include "core/ops/random_fill.h"

namespace foretoken::gpu {
namespace {

void add_token_ops(OpTable& table, const KernelModule& module) {
  table.add<Argmax>("gpu", [kernel = module.resolve<ArgmaxParams>("argmax")](CommandList& cmd, const Argmax& op) {
    kernel(cmd, Grid{extent(op.logits, 0)},
           {.logits = op.logits.address(),
            .token_ids = op.token_ids.address(),
            .logits_stride = stride(op.logits),
            .vocab_size = extent(op.logits, 1)},
           accesses_of(op));
  });

  table.add<SelectTokens>(
      "gpu", [kernel = module.resolve<SelectTokensParams>("select_tokens")](CommandList& cmd, const SelectTokens& op) {
        const uint32_t num_tokens = extent(op.token_ids, 0);
        kernel(cmd, Grid{ceil_div(num_tokens, kTokenThreads)},
               {.host_token_ids = op.host_token_ids.address(),
                .source = op.source.address(),
                .source_rows = op.source_rows.address(),
                .token_ids = op.token_ids.address(),
                .num_tokens = num_tokens,
                .num_sources = extent(op.source, 0)},
               accesses_of(op));
      });

  table.add<AcceptDrafts>(
      "gpu", [kernel = module.resolve<AcceptDraftsParams>("accept_drafts")](CommandList& cmd, const AcceptDrafts& op) {
        const uint32_t num_sequences = extent(op.num_accepted, 0);
        kernel(cmd, Grid{ceil_div(num_sequences, kTokenThreads)},
               {.token_ids = op.token_ids.address(),
                .target_token_ids = op.target_token_ids.address(),
                .query_start_loc = op.query_start_loc.address(),
                .num_accepted = op.num_accepted.address(),
                .num_sequences = num_sequences},
               accesses_of(op));
      });
}

void add_table_ops(OpTable& table, const KernelModule& module) {
  table.add<Embedding>("gpu", [kernel = module.resolve<EmbeddingParams>("embedding")](CommandList& cmd, const Embedding& op) {
    kernel(cmd, Grid{extent(op.ids, 0)},
           {.ids = op.ids.address(),
            .table = op.table.address(),
            .out = op.out.address(),
            .out_stride = stride(op.out),
            .vocab_size = extent(op.table, 0),
            .hidden_size = extent(op.table, 1),
            .table_is_bf16 = is_bf16(op.table),
            .out_is_bf16 = is_bf16(op.out)},
           accesses_of(op));
  });

  table.add<RandomFill>("gpu",
                        [kernel = module.resolve<RandomFillParams>("random_fill")](CommandList& cmd, const RandomFill& op) {
                          const auto num_elements = static_cast<uint64_t>(op.out.dim(0));
                          kernel(cmd, Grid{static_cast<uint32_t>(ceil_div(num_elements, kRandomElements))},
                                 {.out = op.out.address(),
                                  .num_elements = num_elements,
                                  .seed = op.seed,
                                  .tensor_id = op.tensor_id,
                                  .scale = std::ldexp(1.0F, op.exponent),
                                  .offset = op.offset,
                                  .is_bf16 = is_bf16(op.out),
                                  .reserved = 0},
                                 accesses_of(op));
                        });
}

}  // namespace

void add_sampling_ops(OpTable& table, const KernelModule& module) {
  add_token_ops(table, module);
  add_table_ops(table, module);
}

}  // namespace foretoken::gpu
