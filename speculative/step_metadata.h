// The integers of a step over several sequences, and the size of the Program that serves it.
#pragma once

#include <compare>
#include <span>
#include <vector>

#include "cache/metadata_buffer.h"
#include "core/kv_view.h"
#include "core/ops/gated_delta_rule.h"
#include "speculative/target_sequence.h"

namespace foretoken {

/// Sizes of a Program: sequences and rows rounded up to their buckets (batch_bucket.h).
struct StepShape {
  int64_t num_sequences = 1;
  int64_t num_rows = 1;
  StateUpdate update = StateUpdate::kInPlace;
  bool is_sampled = false;  // picks go through the sampler

  [[nodiscard]] auto operator<=>(const StepShape&) const = default;
};

/// The rows of one sequence in a step: its newest token and the drafts after it.
struct StepPart {
  TargetSequence* sequence = nullptr;
  std::span<const int32_t> token_ids;  // one per row; -1: the drafter's, at block_token_ids[block_row, row]
  int64_t block_row = -1;              // -1: the host knows all ids
  bool is_sampled = false;             // by the parameters of the sequence's slot; otherwise greedy
};

/// Fields for at most `max_sequences` with `max_rows` rows between them; block tables lie in a buffer of their own, which is
/// uploaded only when one has changed. Not thread-safe.
class StepMetadata {
 public:
  /// Declares its fields on `round`, which the caller allocates and which must outlive it.
  StepMetadata(GpuBackend& backend, MetadataBuffer& round, int64_t max_sequences, int64_t max_rows, int64_t max_blocks_per_seq,
               int64_t max_seq_len);

  /// Writes the rows of `parts`, sequence after sequence from each one's num_tokens() on, and padding up to `shape`.
  /// `block_columns` is the width of the drafter's rows of token ids.
  void fill(std::span<const StepPart> parts, const StepShape& shape, int64_t block_columns);
  void upload(Stream& stream);

  [[nodiscard]] StepView view(const StepShape& shape) const;
  [[nodiscard]] Tensor query_start_loc(int64_t num_sequences) const;
  [[nodiscard]] Tensor host_token_ids(int64_t num_rows) const { return round_.tensor(token_ids_).rows(0, num_rows); }
  [[nodiscard]] Tensor source_rows(int64_t num_rows) const { return round_.tensor(source_rows_).rows(0, num_rows); }

 private:
  void fill_sequence(const StepPart& part, size_t sequence_idx, size_t first_row, int64_t block_columns);

  MetadataBuffer& round_;
  MetadataBuffer tables_;
  int64_t max_seq_len_;
  MetadataBuffer::Field token_ids_;        // [max_rows], -1: the drafter's
  MetadataBuffer::Field source_rows_;      // [max_rows], of the drafter's token ids
  MetadataBuffer::Field positions_;        // [max_rows]
  MetadataBuffer::Field slot_mapping_;     // [max_rows]
  MetadataBuffer::Field query_start_loc_;  // [max_sequences + 1]
  MetadataBuffer::Field seq_lens_;         // [max_sequences]
  MetadataBuffer::Field state_slots_;      // [max_sequences]
  MetadataBuffer::Field num_commit_;       // [max_sequences]
  MetadataBuffer::Field block_table_;      // [max_sequences, max_blocks_per_seq]
};

}  // namespace foretoken
