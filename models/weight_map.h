// From the tensors of a source to the weights of the layers: which bytes go where, decided before anything is allocated.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layers/weights.h"
#include "models/model_config.h"
#include "models/weight_source.h"

namespace foretoken {

/// What a weight belongs to, for reports.
enum class WeightPart : uint8_t {
  kEmbedding,
  kNorms,
  kAttention,
  kDeltaNet,
  kMlp,
  kRouter,
  kExperts,
  kSharedExpert,
  kFc,
  kLmHead,
  kKvScales
};

/// "embed_tokens", "norms", "self_attn", "linear_attn", "mlp", "router", "experts", "shared_expert", "fc", "lm_head",
/// "kv_scales".
[[nodiscard]] std::string_view to_string(WeightPart part);

/// Whose a tensor is, by its name alone.
enum class TensorOwner : uint8_t {
  kTarget,
  kShared,  // of both: the embedding and the LM head
  kDraft
};
[[nodiscard]] TensorOwner tensor_owner(std::string_view tensor_name);

enum class Conversion : uint8_t {
  kNone,
  kBf16ToF32,  // exact
  kReciprocal  // F32; compressed-tensors stores the reciprocal of the NVFP4 global scale
};

/// Bytes of a source tensor that go to one place of a planned one.
struct WeightPiece {
  size_t tensor = 0;  // index in the source
  uint64_t source_begin = 0;
  uint64_t bytes = 0;
  uint64_t target_begin = 0;  // in bytes of the planned tensor
  uint64_t copies = 1;        // behind each other
};

/// One tensor to be made in device memory.
struct PlannedTensor {
  std::string name;        // of the tensor in the checkpoint, or what its parts have in common
  Tensor* slot = nullptr;  // in the plan's `target` or `mtp`: where the view goes
  DType dtype = DType::kBF16;
  Shape shape;
  std::vector<WeightPiece> pieces;
  Conversion conversion = Conversion::kNone;
  WeightPart part = WeightPart::kNorms;
  WeightFormat format = WeightFormat::kBF16;  // of the weight that it belongs to
  bool is_scale = false;                      // of that weight
  bool is_matrix = false;                     // of a linear weight or the embedding: the device must store its format
  bool draft = false;                         // of the draft head

  [[nodiscard]] uint64_t bytes() const { return dtype_bytes(dtype, static_cast<size_t>(shape.num_elements())); }
};

/// Slots point into the plan itself, so it stays where it is.
struct WeightPlan {
  WeightPlan() = default;
  WeightPlan(const WeightPlan&) = delete;
  WeightPlan& operator=(const WeightPlan&) = delete;

  TargetWeights target;
  std::optional<MtpWeights> mtp;
  std::string mtp_absent_reason;  // empty when `mtp` is there
  std::vector<PlannedTensor> tensors;
  bool tied_lm_head = false;  // lm_head views embed_tokens and is not in `tensors`
};

/// Finds every weight of the model. Precision is decided per tensor, from its dtype and its scale siblings, never from the
/// config. Throws FormatError that names the tensor, what was expected and what is there: missing, misshapen, of a wrong dtype, a
/// scale without its weight or the other way round, or one that no layer takes (vision towers apart); Unsupported for methods of
/// quantisation that this library does not read (GPTQ, AWQ, MXFP4, integers, ...) and for a quantised embedding.
///
/// Fused files and files with a tensor per expert give the same plan of the same weights: the scales of parts that become one
/// tensor are repeated for the rows, blocks or groups of rows that LinearWeight has.
[[nodiscard]] std::unique_ptr<WeightPlan> plan_weights(const WeightSource& source, const ModelConfig& config);

/// The same for a draft head, the embedding and the LM head: `source` has no tensor of the target's own, and `target` of the plan
/// neither. `shared`: embedding and LM head are these views, and `source` has no tensor of theirs. Throws InvalidArgument too,
/// for views that do not fit the config.
[[nodiscard]] std::unique_ptr<WeightPlan> plan_drafter(const WeightSource& source, const ModelConfig& config,
                                                       const std::optional<SharedWeights>& shared);

/// An LM head that is the embedding.
[[nodiscard]] LinearWeight tied_lm_head(const Tensor& embed_tokens);

}  // namespace foretoken
