// Parts that the test cases of several operators share.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/linear_weight.h"
#include "core/op_case.h"

namespace foretoken::case_parts {

/// "T5" from ("T", 5).
inline std::string sized(std::string_view name, int64_t value) {
  std::string text(name);
  text += std::to_string(value);
  return text;
}

/// What a case's name says about its activations: nothing for F32.
inline std::string activation_suffix(DType dtype) { return dtype == DType::kBF16 ? "_act-bf16" : ""; }

/// Lists as a Fill, whatever their element type.
template <class Number>
Fill listed(const std::vector<Number>& list) {
  return fill::values(std::vector<double>(list.begin(), list.end()));
}

/// Rows of `list`, each `width` long, as a Fill.
template <class Number>
Fill listed_rows(const std::vector<std::vector<Number>>& list) {
  std::vector<double> flat;
  for (const auto& row : list) flat.insert(flat.end(), row.begin(), row.end());
  return fill::values(std::move(flat));
}

/// `fill`, with the elements from `begin` on, `count` of them, replaced by `value`.
inline Fill with_patch(Fill fill, size_t begin, size_t count, double value) {
  return [fill = std::move(fill), begin, count, value](std::mt19937_64& generator, std::span<double> values) {
    fill(generator, values);
    std::ranges::fill(values.subspan(begin, count), value);
  };
}

/// Normal with standard deviation `sigma`; one in eight much smaller, down to nothing.
inline Fill wide_normal(double sigma) {
  return [sigma](std::mt19937_64& generator, std::span<double> values) {
    fill::normal(sigma)(generator, values);
    for (size_t i = 0; i < values.size(); i += 8) values[i] = std::ldexp(values[i], -static_cast<int>(i / 8 % 20));
  };
}

/// A weight's format and how its scales are stored.
struct WeightKind {
  WeightFormat format = WeightFormat::kBF16;
  DType scale_dtype = DType::kF32;       // of FP8: F32 or BF16
  int32_t block_rows = kFp8BlockExtent;  // FP8 block
  bool one_scale = false;                // FP8 row: one for the whole matrix
  int64_t num_global_scales = 1;         // NVFP4: groups of rows
};

/// "fp8-block32-bf16", "nvfp4-G2", ...: the format, and what differs from the defaults above.
inline std::string name_of(const WeightKind& kind) {
  std::string name(to_string(kind.format));
  if (kind.block_rows != kFp8BlockExtent) name += std::to_string(kind.block_rows);
  if (kind.one_scale) name += "-tensor";
  if (kind.scale_dtype == DType::kBF16) name += "-bf16";
  if (kind.num_global_scales != 1) name += sized("-G", kind.num_global_scales);
  return name;
}

/// A weight [N, K] or [E, N, K] of F32 or BF16 with elements from `fill`.
inline LinearWeight plain_weight(OperandMaker& maker, WeightFormat format, const Shape& shape, const Fill& fill) {
  return {.weight = maker.input(code_dtype(format), shape, fill), .scale = {}, .global_scale = {}, .format = format};
}

/// A weight [N, K] or [E, N, K] whose elements have about the standard deviation `sigma`: codes over the whole range of their
/// type, subnormals and zeros included, and scales that differ from one to the next.
inline LinearWeight weight_of(OperandMaker& maker, const WeightKind& kind, const Shape& shape, double sigma) {
  if (kind.format == WeightFormat::kF32 || kind.format == WeightFormat::kBF16) {
    return plain_weight(maker, kind.format, shape, fill::normal(sigma));
  }
  LinearWeight weight{.weight = {}, .scale = {}, .global_scale = {}, .format = kind.format, .block_rows = kind.block_rows};
  const Shape scales = kind.one_scale ? Shape{1} : scale_shape(kind.format, shape, kind.block_rows);
  if (kind.format != WeightFormat::kNvfp4) {
    constexpr double kCodeSigma = 100.0;  // up to the largest code, 448
    weight.weight = maker.input(DType::kE4M3, shape, wide_normal(kCodeSigma));
    weight.scale = maker.input(kind.scale_dtype, scales, fill::uniform(0.5 * sigma / kCodeSigma, 1.5 * sigma / kCodeSigma));
    return weight;
  }
  constexpr double kScale = 40.0;
  weight.weight = maker.input(DType::kE2M1, shape, fill::normal(2.0));
  weight.scale = maker.input(DType::kE4M3, scales, fill::uniform(0.01, 2.0 * kScale));
  const double global = 0.5 * sigma / kScale;
  const Shape groups = shape.rank() == 3 ? Shape{shape[0], kind.num_global_scales} : Shape{kind.num_global_scales};
  weight.global_scale = maker.input(DType::kF32, groups, fill::uniform(0.5 * global, 1.5 * global));
  return weight;
}

/// `count` different integers of [0, bound), in random order.
inline std::vector<int32_t> sample_distinct(std::mt19937_64& generator, int64_t bound, int64_t count) {
  std::vector<int32_t> all(static_cast<size_t>(bound));
  std::iota(all.begin(), all.end(), 0);
  std::ranges::shuffle(all, generator);
  all.resize(static_cast<size_t>(count));
  return all;
}

/// Uniform integer of [low, high].
inline int32_t draw(std::mt19937_64& generator, int64_t low, int64_t high) {
  return static_cast<int32_t>(std::uniform_int_distribution<int64_t>(low, high)(generator));
}

/// Row counts of a batch as query_start_loc, [0, r0, r0 + r1, ...].
inline std::vector<int32_t> start_locations(const std::vector<int32_t>& rows) {
  std::vector<int32_t> locations{0};
  for (const int32_t count : rows) locations.push_back(locations.back() + count);
  return locations;
}

/// How many rows each of `num_sequences` sequences has in a call of `num_rows`. One sequence has them all; several have ragged
/// counts of at most `max_rows`, which may be 0 and may leave padding rows.
inline std::vector<int32_t> ragged_rows(std::mt19937_64& generator, int64_t num_sequences, int64_t num_rows, int64_t max_rows) {
  std::vector<int32_t> rows;
  int64_t left = num_rows;
  for (int64_t b = 0; b < num_sequences; ++b) {
    const bool alone = num_sequences == 1 && num_rows <= max_rows;
    const int64_t count = alone ? num_rows : draw(generator, b == 0 ? 1 : 0, std::min(left, max_rows));
    rows.push_back(static_cast<int32_t>(count));
    left -= count;
  }
  return rows;
}

}  // namespace foretoken::case_parts
