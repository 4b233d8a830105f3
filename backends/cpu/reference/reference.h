// The oracle: every operator, naively, in float64, over tensors in host memory (Tensor::address() is a host pointer). Results are
// rounded once, to the dtype of the output. Operands must satisfy the operator's schema; workspaces are not used.
#pragma once

#include "core/ops/all_ops.h"

namespace foretoken {

void reference(const Embedding& op);
void reference(const RmsNorm& op);
void reference(const AddRmsNorm& op);
void reference(const MtpInput& op);
void reference(const Linear& op);
void reference(const LinearGroup& op);
void reference(const LinearSiluMul& op);
void reference(const LinearArgmax& op);
void reference(const Argmax& op);
void reference(const RopeTable& op);
void reference(const Rope& op);
void reference(const QkNormRopeCache& op);
void reference(const GatedAttention& op);
void reference(const CausalConv1dSilu& op);
void reference(const GatedDeltaRule& op);
void reference(const MoeRoute& op);
void reference(const MoeExpertsUp& op);
void reference(const MoeExpertsDown& op);
void reference(const MoeBlock& op);
void reference(const SelectTokens& op);
void reference(const AcceptDrafts& op);
void reference(const ProcessLogits& op);
void reference(const CountTokens& op);
void reference(const SampleTokens& op);
void reference(const SampleDrafts& op);
void reference(const AcceptSampled& op);
void reference(const RandomFill& op);
void reference(const AbsMax& op);
void reference(const QuantizeFp8Row& op);
void reference(const QuantizeFp8Block& op);
void reference(const QuantizeNvfp4& op);
void reference(const Dequantize& op);

/// Logits of row `t` of an LM head, unrounded: how near another id is to the best one.
[[nodiscard]] std::vector<double> reference_logits(const LinearArgmax& op, int64_t t);

}  // namespace foretoken
