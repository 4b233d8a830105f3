// In which formats the weights of a draft head are kept: what was asked for, what the device can do with it, and the head made
// so. The text never depends on any of this; acceptance and speed do.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "core/linear_weight.h"
#include "models/drafter_weights.h"
#include "models/model_weights.h"
#include "models/weight_map.h"

namespace foretoken {

/// The LM head that drafts are picked with; the target is always verified with the checkpoint's.
struct DraftLmHead {
  enum class Choice : uint8_t {
    kAuto,        // an FP8 copy of a BF16 or F32 one where the device is faster with it, else the target's
    kCheckpoint,  // the target's
    kCopy         // one of its own, in `format`
  };
  Choice choice = Choice::kAuto;
  WeightFormat format = WeightFormat::kFp8Block;  // of a copy
};

/// What a caller asks for; nothing: as the checkpoint stores it. Router, shared_expert_gate and norms always stay so.
struct DraftPrecision {
  std::optional<WeightFormat> linears{};  // q, k, v, o; gate, up, down of dense and shared feed-forward; routed experts
  std::optional<WeightFormat> fc{};
  std::optional<WeightFormat> experts{};  // routed experts alone; nothing: like `linears`
  DraftLmHead lm_head{};
};

/// "auto" (nothing), "bf16", "fp8" (128x128 blocks), "nvfp4" or its alias "fp4", in upper or lower case. Throws InvalidArgument
/// that lists them.
[[nodiscard]] std::optional<WeightFormat> parse_draft_precision(std::string_view name);
/// The same and "checkpoint".
[[nodiscard]] DraftLmHead parse_draft_lm_head(std::string_view name);
/// What the parsers take, "fp8" for FP8 blocks; formats that have no name there are called as in to_string.
[[nodiscard]] std::string_view draft_precision_name(std::optional<WeightFormat> format);
[[nodiscard]] std::string_view draft_precision_name(const DraftLmHead& lm_head);

/// The precision that a request counts as: NVFP4 on a head with a dense feed-forward counts as BF16, everything else as itself.
/// For comparison with engines that run such a head's rows in BF16; nothing here is decided by it (docs/design.md).
[[nodiscard]] WeightFormat effective_precision(WeightFormat requested, bool is_dense_ffn);

/// Whether a head of this precision takes the prompt's rows in during prefill: every one does, in batches and with exact rows.
[[nodiscard]] constexpr bool supports_drafter_prefill(WeightFormat /*effective*/) { return true; }

/// What a head's weights become on one device; nothing: they stay as they are.
struct DraftFormats {
  std::optional<WeightFormat> linears{};  // all but fc and routed experts
  std::optional<WeightFormat> fc{};
  std::optional<WeightFormat> experts{};
  std::optional<WeightFormat> lm_head{};  // of a copy; nothing: the target's
  std::string lm_head_reason{};           // why `auto` chose so, one sentence; empty when the caller chose
};

/// Decides before anything is loaded. `plan` must have a head. Throws Unsupported for a format that the device has no kernels
/// for, with its reason and the formats that would work; InvalidArgument for NVFP4 on a weight whose columns do not divide by
/// 16, with its name.
[[nodiscard]] DraftFormats choose_draft_formats(const GpuBackend& backend, const WeightPlan& plan, const DraftPrecision& wanted);

/// A head ready to draft. Its views point into `buffers` where something was converted, to where it was loaded elsewhere.
struct DraftHead {
  MtpWeights weights;
  Tensor embed_tokens;
  LinearWeight lm_head;
  Tensor token_map{};  // [rows of lm_head] I32, the token of each row; absent: row n is token n
  std::vector<Buffer> buffers;
};

/// Makes a head in `formats` beside the loaded one, which stays. Weights that are in their format already are shared. Its LM
/// head has the rows of `vocab`, rising token ids; none: of all tokens. Throws what convert_weight and copy_rows throw.
[[nodiscard]] DraftHead make_draft_head(GpuBackend& backend, Stream& stream, const DrafterWeights& loaded,
                                        const DraftFormats& formats, std::span<const int32_t> vocab = {});
/// The same in place of the model's own, which must be there: a weight that lies in `model.draft_buffers` is freed as soon as it
/// is converted, and `model.mtp` views the new head.
[[nodiscard]] DraftHead replace_draft_head(GpuBackend& backend, Stream& stream, LoadedModel& model, const DraftFormats& formats,
                                           std::span<const int32_t> vocab = {});
/// The same for a drafter without its target: weights that lie in `drafter.buffers` are freed, the LM head too when no row of it
/// is used any more. `drafter.weights` views the new head.
[[nodiscard]] DraftHead replace_draft_head(GpuBackend& backend, Stream& stream, LoadedDrafter& drafter,
                                           const DraftFormats& formats, std::span<const int32_t> vocab = {});

/// The formats that a part of a head is stored in.
struct StoredFormats {
  std::string_view part;  // "fc", "self_attn", "mlp" or "experts" and "shared_expert", "lm_head"
  std::string formats;    // "bf16"; "bf16+nvfp4" where weights of one part differ
};
[[nodiscard]] std::vector<StoredFormats> stored_formats(const DraftHead& head);

/// Weight bytes that one draft pass of `num_rows` rows reads: of routed experts as many as are hit when each row picks its own at
/// random, of the embedding a row each, of all else everything.
[[nodiscard]] uint64_t draft_step_bytes(const DraftHead& head, const ModelConfig& config, int64_t num_rows = 1);

}  // namespace foretoken
