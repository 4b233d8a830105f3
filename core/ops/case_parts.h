// Parts that the test cases of several operators share.
#pragma once

#include <algorithm>
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

/// A weight [N, K] or [E, N, K] whose dot products with unit activations have unit size. F32 or BF16.
inline LinearWeight plain_weight(OperandMaker& maker, WeightFormat format, const Shape& shape, const Fill& fill) {
  const DType dtype = format == WeightFormat::kF32 ? DType::kF32 : DType::kBF16;
  return {.weight = maker.input(dtype, shape, fill), .scale = {}, .global_scale = {}, .format = format};
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
