#include "speculative/draft_metadata.h"

#include <algorithm>
#include <numeric>

namespace foretoken {

DraftBucket DraftBucket::of(int64_t num_sequences, int64_t num_rows, int64_t num_drafts) {
  const int64_t sequences = batch_bucket(num_sequences);
  return {.num_sequences = sequences,
          .num_rows = sequences + row_bucket(num_rows - num_sequences, sequences),
          .num_drafts = num_drafts};
}

DraftMetadata::DraftMetadata(GpuBackend& backend, MetadataBuffer& round, const DraftLimits& limits)
    : limits_(limits), round_(round) {
  const int64_t block_ids = limits.max_sequences * (1 + limits.max_drafts);
  next_token_ids_ = round.add(DType::kI32, {limits.max_rows()});
  hidden_rows_ = round.add(DType::kI32, {limits.max_rows()});
  positions_ = round.add(DType::kI32, {limits.max_rows_of_passes()});
  slot_mapping_ = round.add(DType::kI64, {limits.max_rows_of_passes()});
  seq_lens_ = round.add(DType::kI32, {limits.max_drafts * limits.max_sequences});
  block_host_ids_ = round.add(DType::kI32, {block_ids});
  std::ranges::fill(round.i32(block_host_ids_), -1);

  query_start_loc_ = tables_.add(DType::kI32, {limits.max_sequences + 1});
  block_source_rows_ = tables_.add(DType::kI32, {block_ids});
  block_tables_ = tables_.add(DType::kI32, {limits.max_sequences, limits.max_blocks_per_seq});
  tables_.allocate(backend);
  const auto starts = tables_.i32(query_start_loc_);
  std::iota(starts.begin(), starts.end(), 0);
  const auto sources = tables_.i32(block_source_rows_);
  for (int64_t i = 0; i < block_ids; ++i) {
    const int64_t sequence = i / (1 + limits.max_drafts);
    const int64_t draft = i % (1 + limits.max_drafts) - 1;
    sources[static_cast<size_t>(i)] = static_cast<int32_t>(std::max<int64_t>(draft, 0) * limits.max_sequences + sequence);
  }
}

/// What an upload writes of `round`.
struct DraftMetadata::Staging {
  std::span<int32_t> next_token_ids;
  std::span<int32_t> hidden_rows;
  std::span<int32_t> positions;
  std::span<int64_t> slot_mapping;
  std::span<int32_t> seq_lens;
  std::span<int32_t> block_host_ids;

  /// Where the row `ahead` of the newest one sits.
  void write_place(int64_t row, const DraftRows& sequence, int64_t ahead, bool is_written) const {
    const int64_t offset = sequence.num_rows() - 1 + ahead;
    const auto index = static_cast<size_t>(row);
    positions[index] = static_cast<int32_t>(sequence.first_key + offset + 1);
    slot_mapping[index] = is_written ? sequence.blocks->slot(sequence.first_position + offset) : -1;
  }

  void write_input(int64_t row, const DraftRows& sequence, int64_t input_idx) const {
    const auto index = static_cast<size_t>(row);
    next_token_ids[index] = sequence.next_token_ids[static_cast<size_t>(input_idx)];
    hidden_rows[index] = static_cast<int32_t>(sequence.first_hidden_row + input_idx);
  }

  void write_other_rows(const DraftBucket& bucket, std::span<const DraftRows> sequences) const {
    int64_t row = bucket.num_sequences;
    for (const DraftRows& sequence : sequences) {
      for (int64_t i = 0; i + 1 < sequence.num_rows(); ++i, ++row) {
        write_input(row, sequence, i);
        write_place(row, sequence, i + 1 - sequence.num_rows(), true);
      }
    }
    for (; row < bucket.num_rows; ++row) {
      write_input(row, sequences[0], 0);
      write_place(row, sequences[0], 0, false);
    }
  }

  /// Row b of every pass, and what it attends to.
  void write_passes(int64_t b, const DraftBucket& bucket, const DraftRows& sequence, bool is_padding) const {
    const int64_t last = std::max<int64_t>(sequence.num_drafts - 1, 0);
    write_place(b, sequence, 0, !is_padding);
    for (int64_t pass = 0; pass < bucket.num_drafts; ++pass) {
      if (pass > 0) write_place(first_row(bucket, pass) + b, sequence, pass, !is_padding && pass <= last);
      const int64_t attended = sequence.first_position + sequence.num_rows() + std::min(pass, last);
      seq_lens[static_cast<size_t>(pass * bucket.num_sequences + b)] = static_cast<int32_t>(attended);
    }
  }
};

void DraftMetadata::write_sequence(int64_t b, const DraftBucket& bucket, const DraftRows& sequence, bool is_padding,
                                   const Staging& staging) {
  staging.write_input(b, sequence, sequence.num_rows() - 1);
  staging.write_passes(b, bucket, sequence, is_padding);
  staging.block_host_ids[static_cast<size_t>(b * (1 + limits_.max_drafts))] = sequence.next_token_ids.back();
  tables_.update(block_tables_, static_cast<size_t>(b * limits_.max_blocks_per_seq), sequence.blocks->blocks());
}

void DraftMetadata::upload(Stream& stream, const DraftBucket& bucket, std::span<const DraftRows> sequences) {
  const Staging staging{.next_token_ids = round_.i32(next_token_ids_),
                        .hidden_rows = round_.i32(hidden_rows_),
                        .positions = round_.i32(positions_),
                        .slot_mapping = round_.i64(slot_mapping_),
                        .seq_lens = round_.i32(seq_lens_),
                        .block_host_ids = round_.i32(block_host_ids_)};
  for (int64_t b = 0; b < bucket.num_sequences; ++b) {
    const bool is_padding = b >= static_cast<int64_t>(sequences.size());
    write_sequence(b, bucket, sequences[is_padding ? 0 : static_cast<size_t>(b)], is_padding, staging);
  }
  staging.write_other_rows(bucket, sequences);
  round_.upload(stream);
  tables_.upload(stream);
}

int64_t DraftMetadata::first_row(const DraftBucket& bucket, int64_t pass_idx) {
  return pass_idx == 0 ? 0 : bucket.num_rows + (pass_idx - 1) * bucket.num_sequences;
}

int64_t DraftMetadata::num_rows(const DraftBucket& bucket, int64_t pass_idx) {
  return pass_idx == 0 ? bucket.num_rows : bucket.num_sequences;
}

Tensor DraftMetadata::positions(const DraftBucket& bucket) const {
  const int64_t last_pass = std::max<int64_t>(bucket.num_drafts - 1, 0);
  return round_.tensor(positions_).rows(0, first_row(bucket, last_pass) + num_rows(bucket, last_pass));
}

StepView DraftMetadata::view(const DraftBucket& bucket, int64_t pass_idx) const {
  const int64_t first = first_row(bucket, pass_idx);
  const int64_t rows = num_rows(bucket, pass_idx);
  const int64_t sequences = bucket.num_sequences;
  return {.positions = round_.tensor(positions_).rows(first, rows),
          .slot_mapping = round_.tensor(slot_mapping_).rows(first, rows),
          .query_start_loc = tables_.tensor(query_start_loc_).rows(0, sequences + 1),
          .seq_lens = round_.tensor(seq_lens_).rows(pass_idx * sequences, sequences),
          .block_table = tables_.tensor(block_tables_).rows(0, sequences),
          .state_slots = {},
          .num_commit = {},
          .max_seq_len = limits_.max_seq_len};
}

Tensor DraftMetadata::next_token_ids(const DraftBucket& bucket) const {
  return round_.tensor(next_token_ids_).rows(0, bucket.num_rows);
}

Tensor DraftMetadata::hidden_rows(const DraftBucket& bucket) const {
  return round_.tensor(hidden_rows_).rows(0, bucket.num_rows);
}

Tensor DraftMetadata::block_host_ids(const DraftBucket& bucket) const {
  return round_.tensor(block_host_ids_).rows(0, bucket.num_sequences * (1 + limits_.max_drafts));
}

Tensor DraftMetadata::block_source_rows(const DraftBucket& bucket) const {
  return tables_.tensor(block_source_rows_).rows(0, bucket.num_sequences * (1 + limits_.max_drafts));
}

}  // namespace foretoken
