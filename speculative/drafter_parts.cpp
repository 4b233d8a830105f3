#include "speculative/drafter_parts.h"

#include <algorithm>
#include <utility>

namespace foretoken {
namespace {

/// Whether the LM head is the caller's, lent or shared.
bool has_lent_lm_head(const DrafterSource& source, const WeightPlan& plan) {
  if (source.shared()) return true;
  const Tensor& slot = plan.tied_lm_head ? plan.target.embed_tokens : plan.target.lm_head.weight;
  const auto planned = std::ranges::find(plan.tensors, &slot, &PlannedTensor::slot);
  return source.resident(planned->pieces.front().tensor) != nullptr;
}

uint64_t bytes_of(const std::vector<Buffer>& buffers) {
  uint64_t bytes = 0;
  for (const Buffer& buffer : buffers) bytes += buffer.bytes();
  return bytes;
}

}  // namespace

uint64_t DrafterParts::weight_bytes() const { return bytes_of(buffers) + bytes_of(head.buffers); }

DrafterParts load_drafter_parts(GpuBackend& backend, Stream& stream, const DrafterSource& source, const ModelConfig& config,
                                const DrafterOptions& options) {
  DraftPrecision wanted = options.precision;
  DraftFormats formats;
  {
    const std::unique_ptr<WeightPlan> plan = plan_drafter(source, config);
    const bool is_lent = has_lent_lm_head(source, *plan);
    const bool stays = is_lent && wanted.lm_head.choice == DraftLmHead::Choice::kAuto;
    if (stays) wanted.lm_head.choice = DraftLmHead::Choice::kCheckpoint;
    formats = choose_draft_formats(backend, *plan, wanted);
    if (stays) formats.lm_head_reason = "drafts use the caller's LM head, of which no copy was asked for";
  }
  LoadedDrafter loaded = load_drafter(backend, source, config, options.progress);
  DrafterParts parts{.config = config, .head = {}, .buffers = {}, .notes = std::move(loaded.notes)};
  parts.head = replace_draft_head(backend, stream, loaded, formats, options.vocab);
  stream.synchronize();
  parts.buffers = std::move(loaded.buffers);
  parts.read_bytes = loaded.read_bytes;
  parts.lent_bytes = loaded.lent_bytes;
  parts.copied_bytes = loaded.copied_bytes;
  if (!formats.lm_head_reason.empty()) parts.notes.push_back(std::move(formats.lm_head_reason));
  return parts;
}

std::unique_ptr<MtpProposer> make_proposer(GpuBackend& backend, const ModelConfig& config, const DraftHead& head,
                                           MtpProposerOptions options, MetadataBuffer& round) {
  options.token_map = head.token_map;
  if (head.lm_head.out_features() != config.vocab_size) options.sampler = nullptr;
  return std::make_unique<MtpProposer>(backend, config, head.weights, head.embed_tokens, head.lm_head, options, round);
}

std::string fallback_note(const MtpProposer& proposer) {
  const Availability& fused = proposer.head().fused_draft();
  if (fused) return {};
  return "the head picks drafts from logits that it writes, without log-probabilities: " + fused.reason();
}

}  // namespace foretoken
