#include "speculative/step_metadata.h"

#include <algorithm>

#include "core/fault.h"

namespace foretoken {

StepMetadata::StepMetadata(GpuBackend& backend, MetadataBuffer& round, int64_t max_sequences, int64_t max_rows,
                           int64_t max_blocks_per_seq, int64_t max_seq_len)
    : round_(round),
      max_seq_len_(max_seq_len),
      token_ids_(round.add(DType::kI32, {max_rows})),
      source_rows_(round.add(DType::kI32, {max_rows})),
      positions_(round.add(DType::kI32, {max_rows})),
      slot_mapping_(round.add(DType::kI64, {max_rows})),
      query_start_loc_(round.add(DType::kI32, {max_sequences + 1})),
      seq_lens_(round.add(DType::kI32, {max_sequences})),
      state_slots_(round.add(DType::kI32, {max_sequences})),
      num_commit_(round.add(DType::kI32, {max_sequences})),
      block_table_(tables_.add(DType::kI32, {max_sequences, max_blocks_per_seq})) {
  tables_.allocate(backend);
}

void StepMetadata::fill_sequence(const StepPart& part, size_t sequence_idx, size_t first_row, int64_t block_columns) {
  const TargetSequence& sequence = *part.sequence;
  const auto token_ids = round_.i32(token_ids_).subspan(first_row);
  const auto source_rows = round_.i32(source_rows_).subspan(first_row);
  const auto positions = round_.i32(positions_).subspan(first_row);
  const auto slots = round_.i64(slot_mapping_).subspan(first_row);
  for (size_t row = 0; row < part.token_ids.size(); ++row) {
    const int64_t position = sequence.num_tokens() + static_cast<int64_t>(row);
    token_ids[row] = part.token_ids[row];
    const bool is_drafted = part.token_ids[row] < 0;
    source_rows[row] = is_drafted ? static_cast<int32_t>(part.block_row * block_columns + static_cast<int64_t>(row)) : 0;
    positions[row] = static_cast<int32_t>(position);
    slots[row] = sequence.blocks().slot(position);
  }
  const auto num_rows = static_cast<int64_t>(part.token_ids.size());
  round_.i32(query_start_loc_)[sequence_idx + 1] = static_cast<int32_t>(static_cast<int64_t>(first_row) + num_rows);
  round_.i32(seq_lens_)[sequence_idx] = static_cast<int32_t>(sequence.num_tokens() + num_rows);
  round_.i32(state_slots_)[sequence_idx] = sequence.state_slot();
  round_.i32(num_commit_)[sequence_idx] = fault::active(Fault::kStateNotCommitted) ? 0 : sequence.num_commit();
  if (fault::active(Fault::kStaleBlockTable)) return;
  const auto max_blocks = static_cast<size_t>(block_table_.shape[1]);
  tables_.update(block_table_, sequence_idx * max_blocks, sequence.blocks().blocks());
}

void StepMetadata::fill(std::span<const StepPart> parts, const StepShape& shape, int64_t block_columns) {
  size_t row = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    fill_sequence(parts[i], i, row, block_columns);
    row += parts[i].token_ids.size();
  }
  const auto num_rows = static_cast<size_t>(shape.num_rows);
  const auto num_sequences = static_cast<size_t>(shape.num_sequences);
  for (const auto& field : {token_ids_, source_rows_, positions_}) {
    std::ranges::fill(round_.i32(field).subspan(row, num_rows - row), 0);
  }
  std::ranges::fill(round_.i64(slot_mapping_).subspan(row, num_rows - row), -1);
  std::ranges::fill(round_.i32(query_start_loc_).subspan(parts.size() + 1, num_sequences - parts.size()),
                    static_cast<int32_t>(row));
  for (const auto& field : {seq_lens_, state_slots_, num_commit_}) {
    std::ranges::fill(round_.i32(field).subspan(parts.size(), num_sequences - parts.size()), 0);
  }
}

void StepMetadata::upload(Stream& stream) {
  round_.upload(stream);
  tables_.upload(stream);
}

Tensor StepMetadata::query_start_loc(int64_t num_sequences) const {
  return round_.tensor(query_start_loc_).rows(0, num_sequences + 1);
}

StepView StepMetadata::view(const StepShape& shape) const {
  const auto of_sequences = [&](const MetadataBuffer::Field& field) { return round_.tensor(field).rows(0, shape.num_sequences); };
  return {.positions = round_.tensor(positions_).rows(0, shape.num_rows),
          .slot_mapping = round_.tensor(slot_mapping_).rows(0, shape.num_rows),
          .query_start_loc = query_start_loc(shape.num_sequences),
          .seq_lens = of_sequences(seq_lens_),
          .block_table = tables_.tensor(block_table_).rows(0, shape.num_sequences),
          .state_slots = of_sequences(state_slots_),
          .num_commit = of_sequences(num_commit_),
          .max_seq_len = max_seq_len_};
}

}  // namespace foretoken
