// argmax, select_tokens, accept_drafts, embedding, random_fill.
#include <cmath>

#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/kernels/sampling_params.h"
#include "backends/cpu/ops/operands.h"
#include "core/ops/accept.h"
#include "core/ops/argmax.h"
#include "core/ops/embedding.h"
#include "core/ops/random_fill.h"

namespace foretoken::cpu {
namespace {

void add_token_ops(OpTable& table, const KernelModule& module) {
  table.add<Argmax>("cpu", [kernel = module.resolve<ArgmaxParams>("argmax")](CommandList& cmd, const Argmax& op) {
    kernel(cmd, items(dimension(op.logits, 0)),
           {.logits = pointer<const float>(op.logits),
            .token_ids = pointer<int32_t>(op.token_ids),
            .logits_stride = stride(op.logits),
            .vocab_size = dimension(op.logits, 1)},
           accesses_of(op));
  });

  table.add<SelectTokens>(
      "cpu", [kernel = module.resolve<SelectTokensParams>("select_tokens")](CommandList& cmd, const SelectTokens& op) {
        kernel(cmd, items(dimension(op.token_ids, 0)),
               {.host_token_ids = pointer<const int32_t>(op.host_token_ids),
                .source = pointer<const int32_t>(op.source),
                .source_rows = pointer<const int32_t>(op.source_rows),
                .token_ids = pointer<int32_t>(op.token_ids),
                .num_sources = dimension(op.source, 0)},
               accesses_of(op));
      });

  table.add<AcceptDrafts>(
      "cpu", [kernel = module.resolve<AcceptDraftsParams>("accept_drafts")](CommandList& cmd, const AcceptDrafts& op) {
        kernel(cmd, items(dimension(op.num_accepted, 0)),
               {.token_ids = pointer<const int32_t>(op.token_ids),
                .target_token_ids = pointer<const int32_t>(op.target_token_ids),
                .query_start_loc = pointer<const int32_t>(op.query_start_loc),
                .num_accepted = pointer<int32_t>(op.num_accepted)},
               accesses_of(op));
      });
}

void add_table_ops(OpTable& table, const KernelModule& module) {
  table.add<Embedding>(
      "cpu",
      [kernel = module.resolve<EmbeddingParams>("embedding")](CommandList& cmd, const Embedding& op) {
        kernel(cmd, items(dimension(op.ids, 0)),
               {.ids = pointer<const int32_t>(op.ids),
                .table = pointer<const void>(op.table),
                .out = pointer<float>(op.out),
                .out_stride = stride(op.out),
                .vocab_size = dimension(op.table, 0),
                .hidden_size = dimension(op.table, 1),
                .table_is_bf16 = op.table.dtype() == DType::kBF16},
               accesses_of(op));
      },
      [](const Embedding& op) { return activations_are_f32({&op.out}); });

  table.add<RandomFill>("cpu",
                        [kernel = module.resolve<RandomFillParams>("random_fill")](CommandList& cmd, const RandomFill& op) {
                          kernel(cmd, items(ceil_div(dimension(op.out, 0), kRandomFillChunk)),
                                 {.out = pointer<void>(op.out),
                                  .num_elements = dimension(op.out, 0),
                                  .seed = op.seed,
                                  .tensor_id = op.tensor_id,
                                  .scale = std::ldexp(1.0F, op.exponent),
                                  .offset = op.offset,
                                  .is_bf16 = op.out.dtype() == DType::kBF16},
                                 accesses_of(op));
                        });
}

}  // namespace

void add_sampling_ops(OpTable& table, const KernelModule& module) {
  add_token_ops(table, module);
  add_table_ops(table, module);
}

}  // namespace foretoken::cpu
