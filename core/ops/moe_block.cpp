#include "core/ops/moe_block.h"

#include <string>
#include <utility>

#include "core/ops/activations.h"

namespace foretoken {
namespace {

void add_weight(OpSchema& schema, const std::string& name, std::vector<std::string> dims) {
  std::move(schema)
      .in(name, std::move(dims), kLinearWeightDtypes)
      .in(name + "_scale", {"..."}, kScaleDtypes)
      .optional()
      .in(name + "_global_scale", {"..."}, kF32Only)
      .optional();
}

OpSchema make_schema() {
  OpSchema schema = OpSchema("moe_block").in("x", {"T", "H"}, kActivationDtypes).strided();
  add_weight(schema, "router", {"E", "H"});
  add_weight(schema, "shared_expert_gate", {"1", "H"});
  add_weight(schema, "shared_gate", {"S", "H"});
  add_weight(schema, "shared_up", {"S", "H"});
  add_weight(schema, "shared_down", {"H", "S"});
  add_weight(schema, "gate_up", {"E", "2*I", "H"});
  add_weight(schema, "down", {"E", "H", "I"});
  return std::move(schema)
      .out("logits", {"T", "E"}, kF32Only)
      .out("shared_score", {"T", "1"}, kF32Only)
      .out("shared_act", {"T", "S"}, kActivationDtypes)
      .out("shared", {"T", "H"}, kActivationDtypes)
      .out("topk_ids", {"T", "k"}, kI32Only)
      .out("topk_weights", {"T", "k"}, kF32Only)
      .out("expert_offsets", {"E+1"}, kI32Only)
      .out("expert_pairs", {"T*k"}, kI32Only)
      .out("act", {"T", "k", "I"}, kActivationDtypes)
      .out("out", {"T", "H"}, kActivationDtypes)
      .strided()
      .workspace("linear_workspace")
      .workspace("workspace")
      .tolerance(DType::kF32, 1e-5)
      .tolerance(DType::kBF16, 1e-2);
}

}  // namespace

LinearGroup MoeBlock::scores() const {
  return {.x = x, .w = {router, shared_expert_gate}, .out = {logits, shared_score}, .workspace = {}};
}

LinearSiluMul MoeBlock::shared_product() const {
  return {.x = x, .gate = shared_gate, .up = shared_up, .out = shared_act, .workspace = linear_workspace, .precision = precision};
}

Linear MoeBlock::shared_output() const {
  return {.x = shared_act, .w = shared_down, .out = shared, .workspace = linear_workspace, .precision = precision};
}

MoeRoute MoeBlock::route() const {
  return {.logits = logits,
          .topk_ids = topk_ids,
          .topk_weights = topk_weights,
          .expert_offsets = expert_offsets,
          .expert_pairs = expert_pairs,
          .norm_topk_prob = norm_topk_prob};
}

MoeExpertsUp MoeBlock::experts_up() const {
  return {.x = x,
          .gate_up = gate_up,
          .expert_offsets = expert_offsets,
          .expert_pairs = expert_pairs,
          .out = act,
          .precision = precision};
}

MoeExpertsDown MoeBlock::experts_down() const {
  return {.act = act,
          .down = down,
          .topk_ids = topk_ids,
          .topk_weights = topk_weights,
          .expert_offsets = expert_offsets,
          .expert_pairs = expert_pairs,
          .shared = shared,
          .shared_gate = shared_score,
          .out = out,
          .workspace = workspace,
          .precision = precision};
}

std::array<const Tensor*, 34> MoeBlock::operands() const {
  std::array<const Tensor*, 34> list{&x};
  size_t count = 1;
  for (const LinearWeight* w : {&router, &shared_expert_gate, &shared_gate, &shared_up, &shared_down, &gate_up, &down}) {
    for (const Tensor* part : {&w->weight, &w->scale, &w->global_scale}) list[count++] = part;
  }
  for (const Tensor* tensor : {&logits, &shared_score, &shared_act, &shared, &topk_ids, &topk_weights, &expert_offsets,
                               &expert_pairs, &act, &out, &linear_workspace, &workspace}) {
    list[count++] = tensor;
  }
  return list;
}

void MoeBlock::validate() const {
  check_weight("moe_block: router", router);
  check_weight("moe_block: shared_expert_gate", shared_expert_gate);
  check_weight("moe_block: shared_gate", shared_gate);
  check_weight("moe_block: shared_up", shared_up);
  check_weight("moe_block: shared_down", shared_down);
  check_weight("moe_block: gate_up", gate_up);
  check_weight("moe_block: down", down);
}

const OpSchema& MoeBlock::schema() {
  static const OpSchema schema = make_schema();
  return schema;
}

}  // namespace foretoken
