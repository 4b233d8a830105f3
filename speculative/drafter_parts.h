// What a draft proposer is made of, without a target of ours: its weights from a checkpoint, from the caller's device memory or
// from a loaded target, in the formats that were asked for. The engine's drafter is put together by the same functions.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/metadata_buffer.h"
#include "models/drafter_weights.h"
#include "speculative/draft_precision.h"
#include "speculative/mtp_proposer.h"

namespace foretoken {

struct DrafterOptions {
  /// `auto` is a copy of the LM head where the device is faster with it, but never of one that is lent or shared.
  DraftPrecision precision{};
  std::span<const int32_t>
      vocab{};  // rising ids of the tokens that drafts can be; none: all. Costs a copy of rows of the LM head
  LoadProgressFn progress{};
};

/// A drafter's weights, ready for proposers. Views lent tensors and weights of a target, which must outlive it, besides its own
/// buffers. Movable; must not outlive its backend.
struct DrafterParts {
  ModelConfig config;
  DraftHead head;
  std::vector<Buffer> buffers;  // as loaded, of what was not converted
  uint64_t read_bytes = 0;      // see LoadedDrafter
  uint64_t lent_bytes = 0;
  uint64_t copied_bytes = 0;
  std::vector<std::string> notes;  // what was chosen on the caller's behalf, one sentence each

  /// Bytes of device memory that its weights hold; what is lent or shared does not count.
  [[nodiscard]] uint64_t weight_bytes() const;
};

/// Loads the weights and converts what `options` says on the device. Work runs on `stream`, which is synchronised at the end.
/// Throws what load_drafter, choose_draft_formats and replace_draft_head throw; InvalidArgument for a vocabulary that does not
/// rise or that the model does not have. Whatever it throws, it leaves nothing allocated.
[[nodiscard]] DrafterParts load_drafter_parts(GpuBackend& backend, Stream& stream, const DrafterSource& source,
                                              const ModelConfig& config, const DrafterOptions& options = {});

/// A proposer that drafts with `head`, which must outlive it like `round`. The token map of `options` is the head's; where drafts
/// can be some tokens only, none are drawn and the sampler is left out. Throws what MtpProposer throws.
[[nodiscard]] std::unique_ptr<MtpProposer> make_proposer(GpuBackend& backend, const ModelConfig& config, const DraftHead& head,
                                                         MtpProposerOptions options, MetadataBuffer& round);

/// What a proposer does otherwise than its device could be expected to, one sentence; empty: nothing.
[[nodiscard]] std::string fallback_note(const MtpProposer& proposer);

}  // namespace foretoken
