// A head in other formats beside a test model's own, with its proposer.
#pragma once

#include <memory>

#include "speculative/draft_precision.h"
#include "test_model.h"

namespace foretoken::test {

class ConvertedHead {
 public:
  /// `vocab`: rising ids of the tokens that drafts can be; none: all.
  ConvertedHead(TestModel& model, const DraftFormats& formats, const TestModelOptions& options = {},
                std::span<const int32_t> vocab = {})
      : head_(make_draft_head(model.backend(), model.stream(), model.loaded().drafter(), formats, vocab)),
        proposer_(model.backend(), model.config(), head_.weights, model.loaded().target.embed_tokens, head_.lm_head,
                  {.max_seq_len = options.max_seq_len,
                   .max_drafts = options.max_drafts,
                   .max_append_rows = options.max_append_rows,
                   .cache_dtype = options.cache_dtype,
                   .activation_dtype = options.activation_dtype,
                   .token_map = head_.token_map,
                   .measure_log_probabilities = options.log_probabilities},
                  round_) {
    round_.allocate(model.backend());
  }

  [[nodiscard]] const DraftHead& head() const { return head_; }
  [[nodiscard]] MtpProposer& proposer() { return proposer_; }

 private:
  DraftHead head_;
  MetadataBuffer round_;
  MtpProposer proposer_;
};

/// The head's linears and its LM head in one format.
inline DraftFormats all_in(WeightFormat format) { return {.linears = format, .experts = format, .lm_head = format}; }

}  // namespace foretoken::test
