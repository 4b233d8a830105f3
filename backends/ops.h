// The operators as calls: check the schema, take the best implementation of the list's device, launch it.
// Shapes, dtypes and formulas are in core/ops/. All throw InvalidArgument on operands that do not fit and Unsupported when no
// implementation of this device takes them.
#pragma once

#include <string>
#include <string_view>

#include "backends/backend.h"
#include "core/error.h"
#include "core/ops/accept.h"
#include "core/ops/accept_sampled.h"
#include "core/ops/argmax.h"
#include "core/ops/embedding.h"
#include "core/ops/gated_attention.h"
#include "core/ops/gated_delta_rule.h"
#include "core/ops/linear.h"
#include "core/ops/linear_group.h"
#include "core/ops/moe_block.h"
#include "core/ops/mtp_input.h"
#include "core/ops/process_logits.h"
#include "core/ops/quantize.h"
#include "core/ops/random_fill.h"
#include "core/ops/rms_norm.h"
#include "core/ops/rope.h"
#include "core/ops/sample_tokens.h"

namespace foretoken::ops {

/// Checks an operator's operands as `dispatch` does. Throws InvalidArgument.
template <class Op>
void check(const Op& op) {
  const auto operands = op.operands();
  Op::schema().check(operands);
  if constexpr (requires { op.validate(); }) op.validate();
}

/// Checks `op` and puts it on `cmd` through the best implementation that accepts it.
template <class Op>
void dispatch(CommandList& cmd, const Op& op) {
  check(op);
  cmd.ops().choose(Op::schema().name(), &op).launch(cmd, &op);
}

/// Scratch bytes that the chosen implementation needs for these operands (their `workspace` may be absent here); 0 for most.
template <class Op>
[[nodiscard]] size_t workspace_bytes(const OpTable& table, const Op& op) {
  const OpImplementation& implementation = table.choose(Op::schema().name(), &op);
  return implementation.workspace_bytes ? implementation.workspace_bytes(&op) : 0;
}

/// Checks before memory exists that a device will run operands like these; activations may have shapes only (Tensor::shape_only).
/// Throws Unsupported that begins with `where` ("target layer 3: q_proj (nvfp4)") and names operator, device and each
/// implementation's reason.
template <class Op>
void require(const GpuBackend& backend, std::string_view where, const Op& op) {
  const std::string& name = Op::schema().name();
  const Availability available = backend.ops().availability(name, &op);
  if (available) return;
  throw Error(ErrorCode::kUnsupported, {.what = name + " on " + backend.capabilities().device_name + ": " + available.reason(),
                                        .where = std::string(where)});
}

/// Like `require`, for operators that a device either has for all operands of a model or not at all.
template <class... Ops>
void require_any(const GpuBackend& backend, std::string_view where) {
  const auto check_one = [&](const std::string& name) {
    if (!backend.ops().find(name).empty()) return;
    throw Error(ErrorCode::kUnsupported, {.what = name + " on " + backend.capabilities().device_name + ": no implementation",
                                          .where = std::string(where)});
  };
  (check_one(Ops::schema().name()), ...);
}

inline void embedding(CommandList& cmd, const Tensor& ids, const Tensor& table, const Tensor& out) {
  dispatch(cmd, Embedding{.ids = ids, .table = table, .out = out});
}

inline void rms_norm(CommandList& cmd, const Tensor& x, const Tensor& weight, const Tensor& out, float eps) {
  dispatch(cmd, RmsNorm{.x = x, .weight = weight, .out = out, .eps = eps});
}

inline void add_rms_norm(CommandList& cmd, const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& out,
                         float eps) {
  dispatch(cmd, AddRmsNorm{.x = x, .residual = residual, .weight = weight, .out = out, .eps = eps});
}

inline void linear(CommandList& cmd, const Tensor& x, const LinearWeight& w, const Tensor& out, const Tensor& workspace = {},
                   LinearPrecision precision = LinearPrecision::kExact) {
  dispatch(cmd, Linear{.x = x, .w = w, .out = out, .workspace = workspace, .precision = precision});
}

inline void argmax(CommandList& cmd, const Tensor& logits, const Tensor& token_ids) {
  dispatch(cmd, Argmax{.logits = logits, .token_ids = token_ids});
}

inline void rope_table(CommandList& cmd, const Tensor& positions, const Tensor& cos_sin, double theta) {
  dispatch(cmd, RopeTable{.positions = positions, .cos_sin = cos_sin, .theta = theta});
}

// Operators with more operands are dispatched as structs, with their members named: ops::dispatch(cmd, GatedAttention{.q = ...}).

}  // namespace foretoken::ops
