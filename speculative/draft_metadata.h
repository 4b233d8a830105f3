// The integers of a draft batch in device memory: which rows each pass takes in, where they sit and what they attend to.
//
// A batch of B sequences is recorded for a bucket of 1, 2, 4, ... 64 sequences. Rows [0, B) of the first pass are the newest row
// of each sequence, which drafts; the rows that enter the cache only follow in any order, and their number is rounded up to a
// multiple of B where B > 1. Each later pass has B rows. Padding is sequence 0 once more, written nowhere: its experts and
// weights are read anyway, and no row computes with memory that nobody wrote.
#pragma once

#include <cstdint>
#include <span>

#include "cache/block_table.h"
#include "cache/metadata_buffer.h"
#include "speculative/batch_bucket.h"
#include "speculative/mtp_head.h"

namespace foretoken {

struct DraftLimits {
  int64_t max_sequences = 1;  // of a batch, a power of two
  int64_t max_drafts = 1;
  int64_t max_blocks_per_seq = 1;
  int64_t max_seq_len = 0;

  /// Rows of a first pass.
  [[nodiscard]] int64_t max_rows() const { return max_sequences * (max_drafts + 1); }
  /// Rows of all passes of a batch.
  [[nodiscard]] int64_t max_rows_of_passes() const { return 2 * max_sequences * max_drafts; }
};

/// What a Program of draft passes is recorded for.
struct DraftBucket {
  int64_t num_sequences = 1;
  int64_t num_rows = 1;    // of the first pass
  int64_t num_drafts = 1;  // passes; 0: the rows enter the cache and nothing is drafted

  auto operator<=>(const DraftBucket&) const = default;
  /// The smallest one for `num_sequences` that take `num_rows` in.
  [[nodiscard]] static DraftBucket of(int64_t num_sequences, int64_t num_rows, int64_t num_drafts);
};

/// One sequence of a batch: its rows are consecutive in pair keys, cache positions and rows of the hidden states.
struct DraftRows {
  const BlockTable* blocks = nullptr;
  std::span<const int32_t> next_token_ids;
  int64_t first_hidden_row = 0;
  int64_t first_key = 0;
  int64_t first_position = 0;  // in the cache
  int64_t num_drafts = 0;      // what later passes compute for it goes nowhere

  [[nodiscard]] int64_t num_rows() const { return static_cast<int64_t>(next_token_ids.size()); }
};

/// Views hold for good once `round` is allocated.
class DraftMetadata {
 public:
  /// What changes with every batch is declared on `round`, whose owner allocates it afterwards; the block tables are kept apart
  /// and uploaded when they change. Throws OutOfMemory.
  DraftMetadata(GpuBackend& backend, MetadataBuffer& round, const DraftLimits& limits);

  /// Writes the batch (`sequences` fit the bucket, and the cache has blocks for all that they write) and uploads what changed.
  void upload(Stream& stream, const DraftBucket& bucket, std::span<const DraftRows> sequences);

  /// Positions of the rows of all passes, [R] I32.
  [[nodiscard]] Tensor positions(const DraftBucket& bucket) const;
  /// Rows of a pass among those of all passes.
  [[nodiscard]] static int64_t first_row(const DraftBucket& bucket, int64_t pass_idx);
  [[nodiscard]] static int64_t num_rows(const DraftBucket& bucket, int64_t pass_idx);
  /// Where the rows of a pass sit and what they attend to.
  [[nodiscard]] StepView view(const DraftBucket& bucket, int64_t pass_idx) const;

  /// What the first pass takes in, [num_rows] I32: token ids, and rows of the target's hidden states.
  [[nodiscard]] Tensor next_token_ids(const DraftBucket& bucket) const;
  [[nodiscard]] Tensor hidden_rows(const DraftBucket& bucket) const;

  /// How blocks [num_sequences, 1 + max_drafts] are put together (see SelectTokens), as many I32 each: the newest tokens, which
  /// the host knows, and where drafts [max_drafts, max_sequences] have the others.
  [[nodiscard]] Tensor block_host_ids(const DraftBucket& bucket) const;
  [[nodiscard]] Tensor block_source_rows(const DraftBucket& bucket) const;

 private:
  struct Staging;

  void write_sequence(int64_t b, const DraftBucket& bucket, const DraftRows& sequence, bool is_padding, const Staging& staging);

  DraftLimits limits_;
  MetadataBuffer& round_;
  MetadataBuffer::Field next_token_ids_;  // [max_rows]
  MetadataBuffer::Field hidden_rows_;     // [max_rows]
  MetadataBuffer::Field positions_;       // [max_rows_of_passes]
  MetadataBuffer::Field slot_mapping_;    // [max_rows_of_passes]
  MetadataBuffer::Field seq_lens_;        // [max_drafts * max_sequences], pass after pass
  MetadataBuffer::Field block_host_ids_;  // [max_sequences * (1 + max_drafts)]
  MetadataBuffer tables_;
  MetadataBuffer::Field query_start_loc_;    // [max_sequences + 1]: every sequence attends with one row
  MetadataBuffer::Field block_source_rows_;  // [max_sequences * (1 + max_drafts)]
  MetadataBuffer::Field block_tables_;       // [max_sequences, max_blocks_per_seq]
};

}  // namespace foretoken
