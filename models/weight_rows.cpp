#include "models/weight_rows.h"

#include <string>
#include <vector>

#include "core/error.h"

namespace foretoken {
namespace {

constexpr size_t kAlignment = 256;

/// Rows [begin, begin + count) of the source, from row `to` of the result on.
struct Run {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t to = 0;
};

std::vector<Run> runs_of(std::span<const int32_t> rows) {
  std::vector<Run> runs;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i > 0 && rows[i] == rows[i - 1] + 1) {
      ++runs.back().count;
    } else {
      runs.push_back({.begin = rows[i], .count = 1, .to = static_cast<int64_t>(i)});
    }
  }
  return runs;
}

void check_rows(const LinearWeight& source, std::span<const int32_t> rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t least = i == 0 ? 0 : rows[i - 1] + int64_t{1};
    if (rows[i] >= least && rows[i] < source.out_features()) continue;
    throw Error(ErrorCode::kInvalidArgument,
                {.what = "row " + std::to_string(i) + " to copy",
                 .where = "copy_rows",
                 .expected = std::to_string(least) + " .. " + std::to_string(source.out_features() - 1),
                 .got = std::to_string(rows[i])});
  }
}

/// Whether each row is a weight by itself, up to scales that all rows share.
bool has_apart_rows(const LinearWeight& source) {
  switch (source.format) {
    case WeightFormat::kF32:
    case WeightFormat::kBF16:
    case WeightFormat::kFp8Row: return true;
    case WeightFormat::kFp8Block: return false;
    case WeightFormat::kNvfp4: return source.global_scale.shape().num_elements() == 1;
  }
  return false;
}

/// A part of the source and its place in the result.
struct Part {
  const Tensor* source = nullptr;
  Tensor LinearWeight::*target = nullptr;
  bool is_shared = false;  // by all rows
  Shape shape{};
  size_t offset = 0;
};

}  // namespace

ConvertedWeight copy_rows(GpuBackend& backend, Stream& stream, const LinearWeight& source, std::span<const int32_t> rows) {
  check_weight("copy_rows: source", source);
  check_rows(source, rows);
  if (!has_apart_rows(source)) {
    const ConvertedWeight plain = convert_weight(backend, stream, source, WeightFormat::kBF16);
    return copy_rows(backend, stream, plain.weight, rows);
  }
  std::vector<Part> parts;
  size_t bytes = 0;
  const auto add = [&](const Tensor& tensor, Tensor LinearWeight::*target) {
    if (!tensor) return;
    Part part{.source = &tensor, .target = target, .is_shared = tensor.dim(0) != source.out_features(), .offset = bytes};
    part.shape = part.is_shared              ? tensor.shape()
                 : tensor.shape().rank() > 1 ? Shape{static_cast<int64_t>(rows.size()), tensor.dim(1)}
                                             : Shape{static_cast<int64_t>(rows.size())};
    bytes +=
        (dtype_bytes(tensor.dtype(), static_cast<size_t>(part.shape.num_elements())) + kAlignment - 1) / kAlignment * kAlignment;
    parts.push_back(part);
  };
  add(source.weight, &LinearWeight::weight);
  add(source.scale, &LinearWeight::scale);
  add(source.global_scale, &LinearWeight::global_scale);

  ConvertedWeight result{.weight = source, .memory = backend.allocate(bytes)};
  for (const Part& part : parts) {
    result.weight.*part.target = result.memory.tensor(part.source->dtype(), part.shape, part.offset);
  }
  stream.run([&](CommandList& cmd) {
    for (const Part& part : parts) {
      const Tensor& target = result.weight.*part.target;
      if (part.is_shared) cmd.copy(part.source->view(), target.view());
      for (const Run& run : part.is_shared ? std::vector<Run>() : runs_of(rows)) {
        cmd.copy(part.source->rows(run.begin, run.count).view(), target.rows(run.to, run.count).view());
      }
    }
  });
  stream.synchronize();
  return result;
}

}  // namespace foretoken
