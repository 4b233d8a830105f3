#include "core/ops/moe.h"

#include "core/ops/activations.h"

namespace foretoken {

const OpSchema& MoeRoute::schema() {
  static const OpSchema schema = OpSchema("moe_route")
                                     .in("logits", {"T", "E"}, kF32Only)
                                     .strided()
                                     .out("topk_ids", {"T", "k"}, kI32Only)
                                     .out("topk_weights", {"T", "k"}, kF32Only)
                                     .out("expert_offsets", {"E+1"}, kI32Only)
                                     .out("expert_pairs", {"T*k"}, kI32Only)
                                     .tolerance(DType::kF32, 1e-5)
                                     .tolerance(DType::kBF16, 1e-2);
  return schema;
}

void MoeExpertsUp::validate() const { check_weight("moe_experts_up: gate_up", gate_up); }

void MoeExpertsDown::validate() const { check_weight("moe_experts_down: down", down); }

const OpSchema& MoeExpertsUp::schema() {
  static const OpSchema schema = OpSchema("moe_experts_up")
                                     .in("x", {"T", "H"}, kActivationDtypes)
                                     .strided()
                                     .in("gate_up", {"E", "2*I", "H"}, kLinearWeightDtypes)
                                     .in("gate_up_scale", {"..."}, kScaleDtypes)
                                     .optional()
                                     .in("gate_up_global_scale", {"..."}, kF32Only)
                                     .optional()
                                     .in("expert_offsets", {"E+1"}, kI32Only)
                                     .in("expert_pairs", {"T*k"}, kI32Only)
                                     .out("out", {"T", "k", "I"}, kActivationDtypes)
                                     .tolerance(DType::kF32, 1e-5)
                                     .tolerance(DType::kBF16, 1e-2);
  return schema;
}

const OpSchema& MoeExpertsDown::schema() {
  static const OpSchema schema = OpSchema("moe_experts_down")
                                     .in("act", {"T", "k", "I"}, kActivationDtypes)
                                     .in("down", {"E", "H", "I"}, kLinearWeightDtypes)
                                     .in("down_scale", {"..."}, kScaleDtypes)
                                     .optional()
                                     .in("down_global_scale", {"..."}, kF32Only)
                                     .optional()
                                     .in("topk_ids", {"T", "k"}, kI32Only)
                                     .in("topk_weights", {"T", "k"}, kF32Only)
                                     .in("expert_offsets", {"E+1"}, kI32Only)
                                     .in("expert_pairs", {"T*k"}, kI32Only)
                                     .in("shared", {"T", "H"}, kActivationDtypes)
                                     .strided()
                                     .optional()
                                     .in("shared_gate", {"T", "1"}, kF32Only)
                                     .strided()
                                     .optional()
                                     .out("out", {"T", "H"}, kActivationDtypes)
                                     .strided()
                                     .workspace("workspace")
                                     .tolerance(DType::kF32, 1e-5)
                                     .tolerance(DType::kBF16, 1e-2);
  return schema;
}

}  // namespace foretoken
