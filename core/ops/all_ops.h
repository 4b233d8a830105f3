// Every operator, as a list of types: for suites that visit them all.
#pragma once

#include "core/ops/accept.h"
#include "core/ops/accept_sampled.h"
#include "core/ops/argmax.h"
#include "core/ops/embedding.h"
#include "core/ops/gated_attention.h"
#include "core/ops/gated_delta_rule.h"
#include "core/ops/linear.h"
#include "core/ops/linear_group.h"
#include "core/ops/moe.h"
#include "core/ops/moe_block.h"
#include "core/ops/mtp_input.h"
#include "core/ops/process_logits.h"
#include "core/ops/quantize.h"
#include "core/ops/random_fill.h"
#include "core/ops/rms_norm.h"
#include "core/ops/rope.h"
#include "core/ops/sample_tokens.h"

namespace foretoken {

/// Stands for an operator in a call of a visitor.
template <class Op>
struct OpTag {
  using type = Op;
};

/// A list of operator types; `visit` calls `visitor(OpTag<Op>{})` for each in turn.
template <class... Ops>
struct OpList {
  template <class Visitor>
  static void visit(Visitor&& visitor) {
    (visitor(OpTag<Ops>{}), ...);
  }
};

using AllOps =
    OpList<Embedding, RmsNorm, AddRmsNorm, MtpInput, Linear, LinearGroup, LinearSiluMul, LinearArgmax, Argmax, RopeTable, Rope,
           QkNormRopeCache, GatedAttention, CausalConv1dSilu, GatedDeltaRule, MoeRoute, MoeExpertsUp, MoeExpertsDown, MoeBlock,
           SelectTokens, AcceptDrafts, ProcessLogits, CountTokens, SampleTokens, SampleDrafts, AcceptSampled, RandomFill, AbsMax,
           QuantizeFp8Row, QuantizeFp8Block, QuantizeNvfp4, Dequantize>;

/// Calls `visitor(OpTag<Op>{})` for every operator.
template <class Visitor>
void for_each_op(Visitor&& visitor) {
  AllOps::visit(visitor);
}

}  // namespace foretoken
