// A CPU model's state, taken over by the float64 operators: what the next steps should give.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tests/integration/generation/test_model.h"
#include "tests/support/reference_backend.h"

namespace foretoken::test {

/// Copies of the caches of a model with one sequence in a fresh pool (block i holds the positions from i * block_size on).
/// Weights are read where the model has them, so it must outlive this. Each weight is read once per step, in seconds per
/// gigabyte.
class ReferenceState {
 public:
  /// The sequence has `num_tokens` tokens in the target's cache, and one drafter row fewer. `options` are those of `model`.
  ReferenceState(TestModel& model, const TestModelOptions& options, int64_t num_tokens);

  /// The target on `token_ids` from `first_position` on, as a verify step does it: after committing `num_commit` rows of the last
  /// one. Returns the hidden states after the final norm, a row for each.
  std::vector<float> verify(std::span<const int32_t> token_ids, int64_t first_position, int64_t num_commit);
  /// Logits of the first `num_rows` rows of the last verify.
  std::vector<float> logits(int64_t num_rows);

  struct Drafts {
    std::vector<int32_t> token_ids;
    std::vector<float> logprobs;
    std::vector<float> hidden;  // of the last pass, after the head's final norm
  };
  /// A chain of `num_drafts` passes after `newest_token_id`, whose predecessor has the hidden state `hidden`.
  Drafts draft(int32_t newest_token_id, std::span<const float> hidden, int64_t num_drafts);

 private:
  /// Integers of one step of the target.
  struct StepFields {
    MetadataBuffer buffer;
    MetadataBuffer::Field input_ids, positions, slot_mapping, query_start_loc, seq_lens, state_slots, num_commit, block_table;
  };

  void declare_fields();
  void copy_caches(TestModel& model);
  void adopt_drafter_rows(int64_t num_rows);
  [[nodiscard]] std::vector<float> read(const Tensor& tensor);

  ReferenceBackend backend_;
  std::unique_ptr<Stream> stream_;
  TargetModel target_;
  PagedKvCache kv_cache_;
  RecurrentStateStore states_;
  MetadataBuffer round_;
  MtpProposer proposer_;
  TargetCaches caches_;
  StepFields fields_;
  std::unique_ptr<ProposerState> drafter_;
};

}  // namespace foretoken::test
