// What a request holds on the device: its sequence in the target's caches, its state in the drafter, a slot of the sampler; from
// the prefix cache where it can, in host memory while it is preempted.
#pragma once

#include "cache/prefix_cache.h"
#include "speculative/drafter_rows.h"
#include "speculative/generation_parts.h"
#include "speculative/generation_request.h"

namespace foretoken {

/// Works on the stream of the parts.
class RequestMemory {
 public:
  /// `rows` is null without a proposer, `prefixes` without a prefix cache. With `overcommit` a request is admitted as soon as its
  /// prompt fits, and grows block by block; otherwise with its whole budget.
  RequestMemory(const GenerationParts& parts, DrafterRows* rows, PrefixCache* prefixes, bool overcommit);

  /// Throws OutOfMemory for a request that never fits.
  void check_fits(const GenerationRequest& request) const;
  /// Takes all that the request needs to start, or to go on where it was preempted. False, with nothing taken, while there is no
  /// room. One that was preempted needs more: what it and the `active` ones will soon grow by, or it would be preempted at once.
  [[nodiscard]] bool try_acquire(GenerationRequest& request, std::span<GenerationRequest* const> active);
  void release(GenerationRequest& request);
  /// Preempts: everything goes to host memory, and the request waits.
  void save(GenerationRequest& request);
  /// Blocks for `num_rows` more rows; evicts cached prefixes for them. False while there is no room.
  [[nodiscard]] bool make_room(GenerationRequest& request, int64_t num_rows);

  /// After a chunk of the prompt that leaves `num_rows` hidden rows, the drafter's row of the last one pending: offers the prefix
  /// to the cache.
  void offer_chunk(GenerationRequest& request, int64_t num_rows);
  /// The request is finished: offers its text.
  void offer_turn(GenerationRequest& request);

 private:
  [[nodiscard]] int64_t budget(const GenerationRequest& request) const;
  /// Blocks that the request will take beyond `num_blocks` within its next kGrowthTokens.
  [[nodiscard]] int64_t growth(const GenerationRequest& request, int64_t num_blocks) const;
  /// To be left free when `request` comes back.
  [[nodiscard]] int64_t spare_blocks(const GenerationRequest& request, std::span<GenerationRequest* const> active) const;
  void acquire(GenerationRequest& request, int64_t spare_blocks);
  void start(GenerationRequest& request);
  void restore(GenerationRequest& request, int64_t spare_blocks);
  void give_state(GenerationRequest& request, DrafterKv kv);
  [[nodiscard]] bool uses_drafter(const GenerationRequest& request) const;
  [[nodiscard]] bool keeps_draft_rows() const;
  [[nodiscard]] bool make_blocks(int64_t num_blocks, int64_t num_draft_blocks);
  /// The memory of a request in the order of HostCopy.
  [[nodiscard]] std::vector<BufferView> pieces(const GenerationRequest& request, std::span<const int32_t> draft_blocks) const;
  [[nodiscard]] const Tensor& hidden() const;
  void offer(GenerationRequest& request, std::span<const int32_t> token_ids, const Tensor& hidden_row);

  const GenerationParts& parts_;
  DrafterRows* rows_;
  PrefixCache* prefixes_;
  bool overcommit_;
};

}  // namespace foretoken
