#include "core/ops/gated_delta_rule.h"

#include <cmath>

#include "core/op_case.h"
#include "core/ops/case_parts.h"

namespace foretoken {
namespace {

struct DeltaShape {
  int64_t num_sequences, num_rows;
  int64_t num_key_heads, num_value_heads, key_dim, value_dim;
  StateUpdate update = StateUpdate::kInPlace;
  bool commits = false;
  bool gated = false;
  bool strided = false;
  DType dtype = DType::kF32;
  int64_t max_records = 8;
  LinearPrecision precision = LinearPrecision::kExact;

  [[nodiscard]] int64_t channels() const { return 2 * num_key_heads * key_dim + num_value_heads * value_dim; }
  [[nodiscard]] int64_t num_slots() const { return num_sequences + 2; }
  [[nodiscard]] bool records() const { return update == StateUpdate::kRecord; }
  [[nodiscard]] bool has_records() const { return records() || commits; }
};

constexpr StateUpdate kRecord = StateUpdate::kRecord;
constexpr StateUpdate kInPlace = StateUpdate::kInPlace;
constexpr LinearPrecision kPrefill = LinearPrecision::kBF16;

// Sizes, update, commits, gated, strided, dtype, records.
constexpr DeltaShape kShapes[] = {
    {1, 1, 2, 4, 128, 128, kInPlace, true, true},
    {1, 9, 2, 4, 128, 128, kInPlace, false, true},
    {1, 70, 1, 2, 64, 64, kInPlace, true},
    {1, 2, 16, 16, 128, 128},
    {1, 1, 2, 6, 128, 128, kInPlace, false, true},
    {3, 12, 2, 4, 64, 64, kInPlace, true, true},
    {3, 3, 2, 4, 64, 64},
    {2, 5, 1, 3, 5, 7, kInPlace, true, true},
    {1, 1, 1, 1, 1, 1},
    {3, 12, 2, 4, 64, 64, kInPlace, false, true, true},
    {1, 4, 2, 4, 128, 128, kRecord, true, true},
    {1, 1, 2, 4, 128, 128, kRecord},
    {1, 16, 2, 4, 64, 64, kRecord, true, true, false, DType::kF32, 16},
    {3, 12, 2, 4, 64, 64, kRecord, true},
    {3, 12, 2, 4, 64, 32, kRecord, true, true, true},
    {4, 9, 1, 3, 33, 70, kRecord, true, true, true, DType::kF32, 5},
    {2, 5, 1, 3, 5, 7, kRecord, false, true},
    {3, 3, 1, 1, 16, 32, kRecord, true, false, false, DType::kF32, 1},
    {1, 9, 2, 4, 128, 128, kInPlace, false, true, false, DType::kBF16},
    {3, 12, 2, 4, 64, 64, kRecord, true, true, true, DType::kBF16},
};

std::string name_of(const DeltaShape& shape) {
  using namespace case_parts;
  return sized("B", shape.num_sequences) + sized("_T", shape.num_rows) + sized("_nk", shape.num_key_heads) +
         sized("_nv", shape.num_value_heads) + sized("_dk", shape.key_dim) + sized("_dv", shape.value_dim) +
         (shape.commits ? "_commit" : "") + (shape.records() ? "_record" : "") + (shape.gated ? "_gated" : "") +
         (shape.precision == kPrefill ? "_prefill" : "") + (shape.strided ? "_strided" : "") + activation_suffix(shape.dtype);
}

Tensor rows_of(OperandMaker& maker, const DeltaShape& shape, int64_t width, const Fill& fill) {
  const Shape extents{shape.num_rows, width};
  if (shape.strided) return maker.strided(shape.dtype, extents, width + 19, fill);
  return fill ? maker.input(shape.dtype, extents, fill) : maker.output(shape.dtype, extents);
}

struct BatchOperands {
  Tensor query_start_loc;  // [B+1]
  Tensor state_slots;      // [B]
  Tensor num_commit;       // [B], absent where nothing is committed
};

/// Ragged rows, slots of the states in random order, and any number of recorded rows to commit.
BatchOperands make_batch(OperandMaker& maker, const DeltaShape& shape) {
  std::mt19937_64 generator(maker.seed());
  const int64_t limit = shape.records() ? shape.max_records : shape.num_rows;
  const std::vector<int32_t> rows = case_parts::ragged_rows(
      generator, shape.num_sequences, shape.num_rows, shape.num_sequences == 1 ? shape.num_rows : std::min<int64_t>(limit, 5));
  const std::vector<int32_t> slots = case_parts::sample_distinct(generator, shape.num_slots(), shape.num_sequences);
  BatchOperands batch{.query_start_loc = maker.input(DType::kI32, {shape.num_sequences + 1},
                                                     case_parts::listed(case_parts::start_locations(rows))),
                      .state_slots = maker.input(DType::kI32, {shape.num_sequences}, case_parts::listed(slots)),
                      .num_commit = {}};
  if (shape.commits) {
    batch.num_commit = maker.input(DType::kI32, {shape.num_sequences}, fill::integers(0, shape.max_records));
  }
  return batch;
}

CausalConv1dSilu make_conv(OperandMaker& maker, const DeltaShape& shape, int64_t channels) {
  const BatchOperands batch = make_batch(maker, shape);
  CausalConv1dSilu op;
  op.x = rows_of(maker, shape, channels, fill::normal(1.0));
  op.weight = maker.input(DType::kF32, {channels, 4}, fill::normal(0.5));
  op.query_start_loc = batch.query_start_loc;
  op.state_slots = batch.state_slots;
  op.num_commit = batch.num_commit;
  op.conv_state = maker.in_out(DType::kF32, {shape.num_slots(), channels, 3}, fill::normal(1.0));
  if (shape.has_records()) {
    op.conv_record = maker.in_out(DType::kF32, {shape.num_slots(), shape.max_records, channels}, fill::normal(1.0));
  }
  op.out = rows_of(maker, shape, channels, {});
  op.update = shape.update;
  return op;
}

/// What the rows of the step before left: keys of about unit length.
void make_records(OperandMaker& maker, const DeltaShape& shape, GatedDeltaRule& op) {
  const int64_t slots = shape.num_slots();
  const int64_t records = shape.max_records;
  const int64_t heads = shape.num_value_heads;
  const double key_sigma = 1.0 / std::sqrt(static_cast<double>(shape.key_dim));
  op.key_record = maker.in_out(DType::kF32, {slots, records, heads, shape.key_dim}, fill::normal(key_sigma));
  op.delta_record = maker.in_out(DType::kF32, {slots, records, heads, shape.value_dim}, fill::normal(1.0));
  op.decay_record = maker.in_out(DType::kF32, {slots, records, heads}, fill::uniform(0.3, 1.0));
}

GatedDeltaRule make_delta_rule(OperandMaker& maker, const DeltaShape& shape) {
  const BatchOperands batch = make_batch(maker, shape);
  const int64_t heads = shape.num_value_heads;
  const Shape out_shape{shape.num_rows, heads, shape.value_dim};
  GatedDeltaRule op;
  op.qkv = rows_of(maker, shape, shape.channels(), fill::normal(1.0));
  op.b = rows_of(maker, shape, heads, fill::normal(1.0));
  op.a = rows_of(maker, shape, heads, fill::normal(1.0));
  op.A_log = maker.input(DType::kF32, {heads}, fill::uniform(-2.0, 1.5));
  op.dt_bias = maker.input(DType::kF32, {heads}, fill::normal(1.0));
  op.query_start_loc = batch.query_start_loc;
  op.state_slots = batch.state_slots;
  op.num_commit = batch.num_commit;
  op.state = maker.in_out(DType::kF32, {shape.num_slots(), heads, shape.key_dim, shape.value_dim}, fill::normal(0.5));
  if (shape.has_records()) make_records(maker, shape, op);
  if (shape.gated) {
    op.z = rows_of(maker, shape, heads * shape.value_dim, fill::normal(1.5)).reshape(out_shape);
    op.norm = maker.input(DType::kF32, {shape.value_dim}, fill::uniform(0.5, 1.5));
  }
  op.out = rows_of(maker, shape, heads * shape.value_dim, {}).reshape(out_shape);
  op.update = shape.update;
  op.precision = shape.precision;
  return op;
}

}  // namespace

std::vector<OpCase<CausalConv1dSilu>> CausalConv1dSilu::cases() {
  std::vector<OpCase<CausalConv1dSilu>> list;
  for (const DeltaShape& shape : kShapes) {
    list.push_back(
        {.name = name_of(shape), .make = [shape](OperandMaker& maker) { return make_conv(maker, shape, shape.channels()); }});
  }
  const DeltaShape wide{1, 4, 16, 16, 128, 128};
  list.push_back({.name = "C6144_T4", .make = [wide](OperandMaker& maker) { return make_conv(maker, wide, 6144); }});
  list.push_back({.name = "C33_T4", .make = [wide](OperandMaker& maker) { return make_conv(maker, wide, 33); }});
  return list;
}

std::vector<OpCase<GatedDeltaRule>> GatedDeltaRule::cases() {
  std::vector<OpCase<GatedDeltaRule>> list;
  // A gate may hide the largest outputs, by which errors are measured.
  constexpr double kGatedTolerance = 2e-5;
  for (const DeltaShape& shape : kShapes) {
    list.push_back({.name = name_of(shape),
                    .make = [shape](OperandMaker& maker) { return make_delta_rule(maker, shape); },
                    .tolerance_override = shape.gated && shape.dtype == DType::kF32 ? kGatedTolerance : 0.0});
  }
  static constexpr DeltaShape kPrefills[] = {
      {1, 32, 2, 4, 128, 128, kInPlace, true, true, false, DType::kF32, 8, kPrefill},
      {1, 200, 1, 2, 128, 128, kInPlace, false, true, false, DType::kF32, 8, kPrefill},
      {1, 70, 1, 2, 64, 64, kInPlace, true, true, true, DType::kF32, 8, kPrefill},
      {3, 50, 2, 2, 32, 128, kInPlace, true, false, false, DType::kF32, 8, kPrefill},
      {1, 33, 1, 3, 5, 7, kInPlace, false, true, false, DType::kF32, 8, kPrefill},
      {1, 129, 1, 2, 128, 128, kInPlace, true, true, false, DType::kBF16, 8, kPrefill},
  };
  for (const DeltaShape& shape : kPrefills) {
    list.push_back({.name = name_of(shape),
                    .make = [shape](OperandMaker& maker) { return make_delta_rule(maker, shape); },
                    .tolerance_override = 1e-2});
  }
  return list;
}

}  // namespace foretoken
