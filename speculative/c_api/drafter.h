// Drafters of the C API and what they keep of sequences.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/metadata_buffer.h"
#include "foretoken/drafter.h"
#include "speculative/c_api/device.h"
#include "speculative/c_api/drafter_setup.h"
#include "speculative/c_api/rows.h"
#include "speculative/drafter_parts.h"
#include "speculative/mtp_proposer.h"

namespace foretoken::c_api {

class SequenceObject;

class DrafterObject final : public DeviceChild, public std::enable_shared_from_this<DrafterObject> {
 public:
  static constexpr std::string_view kKind = "drafter";

  /// Loads the weights and reserves all memory. Throws what load_drafter_parts and make_proposer throw.
  explicit DrafterObject(DrafterSetup setup);

  [[nodiscard]] MtpProposer& proposer() { return *proposer_; }
  [[nodiscard]] const ModelConfig& config() const { return setup_.config; }
  [[nodiscard]] foretoken_drafter_memory memory() const;
  [[nodiscard]] const foretoken_drafter_statistics& statistics() const { return statistics_; }

  [[nodiscard]] const std::string& notes() const { return notes_; }

  /// Takes rows in without drafting.
  void prefill(SequenceObject& sequence, std::span<const int32_t> next_token_ids, const HiddenRows& hidden);
  /// Writes the results into `drafts`.
  void propose(std::span<foretoken_draft> drafts);
  void after_verify(SequenceObject& sequence, int32_t num_accepted);
  /// Records the Programs of `num_sequences` with up to `num_drafts` drafts each.
  void prepare(int64_t num_sequences, int64_t num_drafts, DType dtype);

  /// Throws InvalidArgument for a token id that is not in the vocabulary.
  void check_token_ids(std::span<const int32_t> token_ids) const;

 private:
  /// One sequence of a propose.
  struct Part {
    std::shared_ptr<SequenceObject> sequence;
    std::span<const int32_t> next_token_ids;
    HiddenRows hidden;
  };

  [[nodiscard]] std::vector<Part> check(std::span<const foretoken_draft> drafts) const;
  [[nodiscard]] Tensor staged(DType dtype) const;
  void append(ProposerState& state, std::span<const int32_t> next_token_ids, const HiddenRows& hidden, LinearPrecision precision);
  void read_back(std::span<const foretoken_draft> drafts);
  void finish_reading();

  DrafterSetup setup_;
  DrafterParts parts_;
  MetadataBuffer round_;
  std::unique_ptr<MtpProposer> proposer_;
  Buffer staging_;  // hidden states: of a prefill, of a propose in F32, of a propose in BF16
  std::vector<std::byte> scratch_;
  std::string notes_;
  foretoken_drafter_statistics statistics_{};
  uint64_t total_bytes_ = 0;
};

class SequenceObject final : public DeviceChild {
 public:
  static constexpr std::string_view kKind = "sequence";

  /// Throws OutOfMemory.
  SequenceObject(std::shared_ptr<DrafterObject> owner, int64_t token_budget);

  [[nodiscard]] int64_t next_key() const { return drafter->proposer().first_missing_key(*state); }
  /// Throws InvalidState while drafts wait for their verdict.
  void require_verified() const;
  /// Throws InvalidArgument when that many more rows and then drafts do not fit.
  void require_room(int64_t num_rows) const;

  std::shared_ptr<DrafterObject> drafter;
  std::unique_ptr<ProposerState> state;
  int64_t max_tokens;
};

}  // namespace foretoken::c_api
