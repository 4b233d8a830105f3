#include "models/weight_map_assembly.h"

#include <algorithm>
#include <numeric>

namespace foretoken {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Appends a piece behind the others; one that continues the last piece makes that one longer.
void append(std::vector<WeightPiece>& pieces, size_t tensor, uint64_t begin, uint64_t bytes, uint64_t copies = 1) {
  const uint64_t end = pieces.empty() ? 0 : pieces.back().target_begin + pieces.back().bytes * pieces.back().copies;
  if (!pieces.empty() && copies == 1) {
    WeightPiece& last = pieces.back();
    if (last.tensor == tensor && last.copies == 1 && last.source_begin + last.bytes == begin) {
      last.bytes += bytes;
      return;
    }
  }
  pieces.push_back({.tensor = tensor, .source_begin = begin, .bytes = bytes, .target_begin = end, .copies = copies});
}

}  // namespace

WeightAssembly::WeightAssembly(std::vector<WeightSegment> segments, int64_t experts, int64_t row_groups)
    : segments_(std::move(segments)), experts_(experts), row_groups_(row_groups) {
  for (const WeightSegment& segment : segments_) rows_ += segment.count;
  matrix_rows_ = rows_ / std::max<int64_t>(experts, 1);
  const bool has_one_source = std::ranges::all_of(segments_, [&](const WeightSegment& s) { return s.stored == &first(); });
  is_one_scale_ = experts == 0 && has_one_source && first().format == WeightFormat::kFp8Row && first().scale_extent == first().n;
}

Shape WeightAssembly::shape() const { return experts_ == 0 ? Shape{rows_, first().k} : Shape{experts_, matrix_rows_, first().k}; }

Shape WeightAssembly::scales_shape() const {
  return is_one_scale_ ? Shape{1} : scale_shape(first().format, shape(), block_rows());
}

Shape WeightAssembly::global_scales_shape() const { return experts_ == 0 ? Shape{row_groups_} : Shape{experts_, row_groups_}; }

int64_t WeightAssembly::block_rows() const {
  if (first().format != WeightFormat::kFp8Block) return kFp8BlockExtent;
  int64_t extent = kFp8BlockExtent;  // what divides every place where a segment starts, in its stored weight and in the matrix
  int64_t row = 0;
  for (const WeightSegment& segment : segments_) {
    extent = std::gcd(extent, std::gcd(segment.begin, row % matrix_rows_));
    row += segment.count;
  }
  return extent;
}

std::vector<WeightPiece> WeightAssembly::weights() const {
  std::vector<WeightPiece> pieces;
  for (const auto& [stored, begin, count] : segments_) {
    append(pieces, stored->weight.tensor, stored->weight.begin + static_cast<uint64_t>(begin) * stored->row_bytes(),
           static_cast<uint64_t>(count) * stored->row_bytes());
  }
  return pieces;
}

std::vector<WeightPiece> WeightAssembly::scales() const {
  if (is_one_scale_) {
    return {{.tensor = first().scale->tensor, .source_begin = first().scale->begin, .bytes = first().scale_row_bytes()}};
  }
  const int64_t target_extent = first().format == WeightFormat::kFp8Block ? block_rows() : 1;
  std::vector<WeightPiece> pieces;
  for (const auto& [stored, begin, count] : segments_) {
    const int64_t extent = stored->scale_extent;
    const uint64_t row_bytes = stored->scale_row_bytes();
    const int64_t start = begin / extent;
    const int64_t end = ceil_div(begin + count, extent);
    const uint64_t source = stored->scale->begin + static_cast<uint64_t>(start) * row_bytes;
    if (extent == target_extent) {
      append(pieces, stored->scale->tensor, source, static_cast<uint64_t>(end - start) * row_bytes);
      continue;
    }
    for (int64_t row = start; row < end; ++row) {
      const int64_t covered = std::min(begin + count, (row + 1) * extent) - std::max(begin, row * extent);
      append(pieces, stored->scale->tensor, source + static_cast<uint64_t>(row - start) * row_bytes, row_bytes,
             static_cast<uint64_t>(ceil_div(covered, target_extent)));
    }
  }
  return pieces;
}

/// The rows of a group come from one stored weight, which may hold several groups.
std::vector<WeightPiece> WeightAssembly::global_scales() const {
  const int64_t group_rows = matrix_rows_ / row_groups_;
  std::vector<WeightPiece> pieces;
  int64_t row = 0;
  int64_t next_group = 0;  // its first row
  for (const WeightSegment& segment : segments_) {
    row += segment.count;
    const int64_t groups = next_group < row ? ceil_div(row - next_group, group_rows) : 0;
    next_group += groups * group_rows;
    const StoredBytes& global = *segment.stored->global_scale;
    if (groups > 0) append(pieces, global.tensor, global.begin, sizeof(float), static_cast<uint64_t>(groups));
  }
  return pieces;
}

}  // namespace foretoken
