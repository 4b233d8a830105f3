#include "models/weight_converter.h"

#include <algorithm>
#include <string>

#include "backends/ops.h"
#include "core/error.h"

namespace foretoken {
namespace {

constexpr size_t kAlignment = 256;
/// Decoded weights at a time: whole tiles of 128 rows, and more than one tile only while they fit in here.
constexpr int64_t kSliceBytes = int64_t{16} << 20;
constexpr std::string_view kWhere = "convert_weight";

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
bool is_plain(WeightFormat format) { return format == WeightFormat::kF32 || format == WeightFormat::kBF16; }

size_t tensor_bytes(DType dtype, const Shape& shape) {
  return shape.rank() == 0 ? 0 : dtype_bytes(dtype, static_cast<size_t>(shape.num_elements()));
}

/// dtypes and shapes of a weight's parts. Rank 0: not there.
struct Parts {
  WeightFormat format;
  int32_t block_rows = kFp8BlockExtent;
  DType code_dtype;
  Shape codes;
  DType scale_dtype = DType::kF32;
  Shape scale{};
  Shape global_scale{};

  [[nodiscard]] size_t scale_offset() const { return aligned(tensor_bytes(code_dtype, codes)); }
  [[nodiscard]] size_t global_scale_offset() const { return scale_offset() + aligned(tensor_bytes(scale_dtype, scale)); }
  [[nodiscard]] size_t bytes() const { return global_scale_offset() + aligned(tensor_bytes(DType::kF32, global_scale)); }

  [[nodiscard]] LinearWeight place(const Buffer& memory) const {
    LinearWeight weight{
        .weight = memory.tensor(code_dtype, codes), .scale = {}, .global_scale = {}, .format = format, .block_rows = block_rows};
    if (scale.rank() > 0) weight.scale = memory.tensor(scale_dtype, scale, scale_offset());
    if (global_scale.rank() > 0) weight.global_scale = memory.tensor(DType::kF32, global_scale, global_scale_offset());
    return weight;
  }
};

/// Rows that can share a scale when groups of `rows` rows are quantised apart and their blocks must line up.
int32_t shared_rows(int64_t rows, int64_t row_groups) {
  if (row_groups == 1 || rows % kFp8BlockExtent == 0) return kFp8BlockExtent;
  return static_cast<int32_t>(rows & -rows);
}

Parts parts_of(WeightFormat format, const Shape& shape, int64_t row_groups) {
  Parts parts{.format = format, .code_dtype = code_dtype(format), .codes = shape};
  if (format == WeightFormat::kFp8Block) parts.block_rows = shared_rows(shape[shape.rank() - 2] / row_groups, row_groups);
  parts.scale = scale_shape(format, shape, parts.block_rows);
  if (format == WeightFormat::kNvfp4) {
    parts.scale_dtype = DType::kE4M3;
    parts.global_scale = shape.rank() == 3 ? Shape{shape[0], row_groups} : Shape{row_groups};
  }
  return parts;
}

Parts parts_of(const LinearWeight& weight) {
  return {.format = weight.format,
          .block_rows = weight.block_rows,
          .code_dtype = weight.weight.dtype(),
          .codes = weight.weight.shape(),
          .scale_dtype = weight.scale.dtype(),
          .scale = weight.scale.shape(),
          .global_scale = weight.global_scale.shape()};
}

/// Where a run of rows from `begin` to at most `end` must stop to be a weight by itself.
int64_t end_of_piece(const LinearWeight& matrix, int64_t begin, int64_t end) {
  if (matrix.format == WeightFormat::kFp8Block && begin % matrix.block_rows != 0) {
    return std::min(end, (begin / matrix.block_rows + 1) * matrix.block_rows);
  }
  if (matrix.format == WeightFormat::kNvfp4) {
    const int64_t group_rows = matrix.out_features() / matrix.global_scale.dim(0);
    return std::min(end, (begin / group_rows + 1) * group_rows);
  }
  return end;
}

/// Rows [begin, end) of a matrix, no further than end_of_piece.
LinearWeight piece_of(const LinearWeight& matrix, int64_t begin, int64_t end) {
  LinearWeight piece = matrix;
  piece.weight = matrix.weight.rows(begin, end - begin);
  if (matrix.format == WeightFormat::kFp8Row && matrix.scale.shape() != Shape{1}) {
    piece.scale = matrix.scale.rows(begin, end - begin);
  } else if (matrix.format == WeightFormat::kFp8Block) {
    const int64_t first = begin / matrix.block_rows;
    piece.scale = matrix.scale.rows(first, ceil_div(end, matrix.block_rows) - first);
  } else if (matrix.format == WeightFormat::kNvfp4) {
    piece.scale = matrix.scale.rows(begin, end - begin);
    piece.global_scale = matrix.global_scale.rows(begin / (matrix.out_features() / matrix.global_scale.dim(0)), 1);
  }
  return piece;
}

/// Converts matrices of one shape, one after the other on a stream, with scratch memory that they share.
class MatrixConverter {
 public:
  /// `source` and `target` are any matrix of the stack. Allocates; launches nothing.
  MatrixConverter(GpuBackend& backend, const LinearWeight& source, const LinearWeight& target, int64_t row_groups,
                  const Tensor& column_weight)
      : group_rows_(source.out_features() / row_groups), row_groups_(row_groups), column_weight_(column_weight) {
    const int64_t k = source.in_features();
    const int64_t row_bytes = std::max<int64_t>(1, k * static_cast<int64_t>(sizeof(float)));
    const int64_t tiles = std::max<int64_t>(1, kSliceBytes / row_bytes / kFp8BlockExtent);
    slice_rows_ = std::max<int64_t>(1, std::min(tiles * kFp8BlockExtent, group_rows_));
    if (is_plain(target.format)) return;
    if (!is_plain(source.format)) slice_ = scratch(backend, DType::kF32, {slice_rows_, k});
    if (target.format == WeightFormat::kFp8Block && target.block_rows != kFp8BlockExtent) {
      tile_scale_ = scratch(backend, DType::kF32, scale_shape(WeightFormat::kFp8Block, {slice_rows_, k}));
    }
    if (target.format == WeightFormat::kNvfp4) {
      const int64_t num_slices = ceil_div(group_rows_, slice_rows_);
      amax_ = scratch(backend, DType::kF32, {1});
      slice_amax_ = scratch(backend, DType::kF32, {num_slices});
      const auto workspace_bytes = [&](const Shape& shape) {
        return ops::workspace_bytes(backend.ops(),
                                    AbsMax{.x = Tensor::shape_only(DType::kF32, shape), .amax = {}, .workspace = {}});
      };
      const size_t bytes = std::max(workspace_bytes({slice_rows_, k}), workspace_bytes({1, num_slices}));
      if (bytes > 0) workspace_ = scratch(backend, DType::kU8, {static_cast<int64_t>(bytes)});
    }
  }

  void convert(CommandList& cmd, const LinearWeight& source, const LinearWeight& target) {
    if (is_plain(target.format)) {
      ops::dispatch(cmd, Dequantize{.w = source, .out = target.weight});
      return;
    }
    for (int64_t group = 0; group < row_groups_; ++group) {
      if (target.format == WeightFormat::kNvfp4) find_amax(cmd, source, group);
      for (int64_t begin = 0; begin < group_rows_; begin += slice_rows_) quantize_slice(cmd, source, target, group, begin);
    }
  }

 private:
  Tensor scratch(GpuBackend& backend, DType dtype, const Shape& shape) {
    memory_.push_back(backend.allocate(tensor_bytes(dtype, shape)));
    return memory_.back().tensor(dtype, shape);
  }

  /// Rows of a group from `begin` on, one slice of them, as F32 or BF16.
  Tensor decoded(CommandList& cmd, const LinearWeight& source, int64_t group, int64_t begin) {
    const int64_t count = std::min(slice_rows_, group_rows_ - begin);
    const int64_t first = group * group_rows_ + begin;
    if (is_plain(source.format)) return source.weight.rows(first, count);
    for (int64_t row = first; row < first + count;) {
      const int64_t end = end_of_piece(source, row, first + count);
      ops::dispatch(cmd, Dequantize{.w = piece_of(source, row, end), .out = slice_.rows(row - first, end - row)});
      row = end;
    }
    return slice_.rows(0, count);
  }

  void find_amax(CommandList& cmd, const LinearWeight& source, int64_t group) {
    for (int64_t begin = 0; begin < group_rows_; begin += slice_rows_) {
      ops::dispatch(cmd, AbsMax{.x = decoded(cmd, source, group, begin),
                                .amax = slice_amax_.rows(begin / slice_rows_, 1),
                                .workspace = workspace_});
    }
    ops::dispatch(cmd, AbsMax{.x = slice_amax_.reshape({1, slice_amax_.dim(0)}), .amax = amax_, .workspace = workspace_});
  }

  void quantize_slice(CommandList& cmd, const LinearWeight& source, const LinearWeight& target, int64_t group, int64_t begin) {
    const Tensor x = decoded(cmd, source, group, begin);
    const int64_t first = group * group_rows_ + begin;
    const Tensor codes = target.weight.rows(first, x.dim(0));
    if (target.format == WeightFormat::kFp8Row) {
      ops::dispatch(cmd, QuantizeFp8Row{.x = x, .codes = codes, .scale = target.scale.rows(first, x.dim(0))});
    } else if (target.format == WeightFormat::kNvfp4) {
      ops::dispatch(cmd, QuantizeNvfp4{.x = x,
                                       .amax = amax_,
                                       .column_weight = column_weight_,
                                       .codes = codes,
                                       .scale = target.scale.rows(first, x.dim(0)),
                                       .global_scale = target.global_scale.rows(group, 1)});
    } else {
      quantize_blocks(cmd, x, codes, target, first);
    }
  }

  void quantize_blocks(CommandList& cmd, const Tensor& x, const Tensor& codes, const LinearWeight& target, int64_t first) {
    const int64_t num_tiles = ceil_div(x.dim(0), kFp8BlockExtent);
    if (target.block_rows == kFp8BlockExtent) {
      const Tensor scale = target.scale.rows(first / kFp8BlockExtent, num_tiles);
      ops::dispatch(cmd, QuantizeFp8Block{.x = x, .codes = codes, .scale = scale});
      return;
    }
    const Tensor tile_scale = tile_scale_.rows(0, num_tiles);
    ops::dispatch(cmd, QuantizeFp8Block{.x = x, .codes = codes, .scale = tile_scale});
    for (int64_t row = 0; row < x.dim(0); row += target.block_rows) {
      cmd.copy(tile_scale.rows(row / kFp8BlockExtent, 1).view(), target.scale.rows((first + row) / target.block_rows, 1).view());
    }
  }

  int64_t group_rows_;
  int64_t row_groups_;
  Tensor column_weight_;  // [K] or absent
  int64_t slice_rows_ = 0;
  std::vector<Buffer> memory_;
  Tensor slice_;       // [slice_rows, K] F32
  Tensor tile_scale_;  // of a slice, 128 rows to a scale
  Tensor slice_amax_;  // [slices of a group]
  Tensor amax_;        // [1]
  Tensor workspace_;
};

void check_column_weight(const LinearWeight& source, const Tensor& column_weight) {
  const Shape expected{source.in_features()};
  if (!column_weight || (column_weight.dtype() == DType::kF32 && column_weight.shape() == expected)) return;
  throw Error(ErrorCode::kInvalidArgument,
              {.what = "column_weight does not fit the source " + source.weight.shape().to_string(),
               .where = std::string(kWhere),
               .expected = "f32 " + expected.to_string(),
               .got = std::string(to_string(column_weight.dtype())) + " " + column_weight.shape().to_string()});
}

void check_request(const GpuBackend& backend, const LinearWeight& source, WeightFormat format, int64_t row_groups) {
  check_weight(std::string(kWhere) + ": source", source);
  backend.capabilities().require_storable(source.format, "the source", kWhere);
  backend.capabilities().require_storable(format, "the result", kWhere);
  if (row_groups < 1 || source.out_features() % row_groups != 0) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "rows do not divide into " + std::to_string(row_groups) + " groups",
                                              .where = std::string(kWhere),
                                              .expected = "a divisor of " + std::to_string(source.out_features()),
                                              .got = std::to_string(row_groups)});
  }
  if (format == WeightFormat::kNvfp4 && source.in_features() % kNvfp4Group != 0) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "columns do not divide into groups of 16, as NVFP4 needs",
                                              .where = std::string(kWhere),
                                              .expected = "a multiple of 16",
                                              .got = std::to_string(source.in_features())});
  }
  ops::require_any<AbsMax, QuantizeFp8Row, QuantizeFp8Block, QuantizeNvfp4, Dequantize>(backend, kWhere);
}

void copy_tensor(Stream& stream, const Tensor& source, const Tensor& target) {
  if (source) stream.copy(source.view(), target.view());
}

}  // namespace

size_t converted_bytes(WeightFormat format, const Shape& shape, int64_t row_groups) {
  return parts_of(format, shape, row_groups).bytes();
}

ConvertedWeight convert_weight(GpuBackend& backend, Stream& stream, const LinearWeight& source, WeightFormat format,
                               int64_t row_groups, const Tensor& column_weight) {
  check_request(backend, source, format, row_groups);
  check_column_weight(source, column_weight);
  const bool is_copy = source.format == format;
  const Parts parts = is_copy ? parts_of(source) : parts_of(format, source.weight.shape(), row_groups);
  ConvertedWeight result;
  result.memory = backend.allocate(parts.bytes());
  result.weight = parts.place(result.memory);
  if (is_copy) {
    copy_tensor(stream, source.weight, result.weight.weight);
    copy_tensor(stream, source.scale, result.weight.scale);
    copy_tensor(stream, source.global_scale, result.weight.global_scale);
    stream.synchronize();
    return result;
  }
  const bool is_stack = source.weight.shape().rank() == 3;
  const int64_t num_matrices = is_stack ? source.weight.dim(0) : 1;
  const auto matrix = [&](const LinearWeight& weight, int64_t i) { return is_stack ? weight.expert(i) : weight; };
  if (num_matrices == 0) return result;
  MatrixConverter converter(backend, matrix(source, 0), matrix(result.weight, 0), row_groups, column_weight);
  stream.run([&](CommandList& cmd) {
    for (int64_t i = 0; i < num_matrices; ++i) converter.convert(cmd, matrix(source, i), matrix(result.weight, i));
  });
  stream.synchronize();
  return result;
}

}  // namespace foretoken
