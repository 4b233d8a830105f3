#include "core/ops/gated_delta_rule.h"

#include "core/op_case.h"
#include "core/ops/case_parts.h"

namespace foretoken {
namespace {

struct DeltaShape {
  int64_t num_sequences, num_rows;
  int64_t num_key_heads, num_value_heads, key_dim, value_dim;
  StateUpdate update = StateUpdate::kInPlace;
  bool strided = false;
  DType dtype = DType::kF32;
  int64_t max_records = 8;
  LinearPrecision precision = LinearPrecision::kExact;

  [[nodiscard]] int64_t channels() const { return 2 * num_key_heads * key_dim + num_value_heads * value_dim; }
  [[nodiscard]] int64_t num_slots() const { return num_sequences + 2; }
  [[nodiscard]] bool records() const { return update == StateUpdate::kRecord; }
};

constexpr StateUpdate kRecord = StateUpdate::kRecord;
constexpr StateUpdate kInPlace = StateUpdate::kInPlace;
constexpr LinearPrecision kPrefill = LinearPrecision::kBF16;

constexpr DeltaShape kShapes[] = {
    {1, 1, 2, 4, 128, 128},
    {1, 9, 2, 4, 128, 128},
    {1, 70, 1, 2, 64, 64},
    {1, 2, 16, 16, 128, 128},
    {1, 1, 2, 6, 128, 128},
    {3, 12, 2, 4, 64, 64},
    {3, 3, 2, 4, 64, 64},
    {2, 5, 1, 3, 5, 7},
    {1, 1, 1, 1, 1, 1},
    {3, 12, 2, 4, 64, 64, kInPlace, true},
    {1, 4, 2, 4, 128, 128, kRecord},
    {1, 1, 2, 4, 128, 128, kRecord},
    {1, 16, 2, 4, 64, 64, kRecord, false, DType::kF32, 16},
    {3, 12, 2, 4, 64, 64, kRecord},
    {3, 12, 2, 4, 64, 32, kRecord, true},
    {2, 5, 1, 3, 5, 7, kRecord},
    {1, 9, 2, 4, 128, 128, kInPlace, false, DType::kBF16},
    {3, 12, 2, 4, 64, 64, kRecord, true, DType::kBF16},
};

std::string name_of(const DeltaShape& shape) {
  using namespace case_parts;
  return sized("B", shape.num_sequences) + sized("_T", shape.num_rows) + sized("_nk", shape.num_key_heads) +
         sized("_nv", shape.num_value_heads) + sized("_dk", shape.key_dim) + sized("_dv", shape.value_dim) +
         (shape.records() ? "_record" : "") + (shape.precision == kPrefill ? "_prefill" : "") +
         (shape.strided ? "_strided" : "") + activation_suffix(shape.dtype);
}

Tensor rows_of(OperandMaker& maker, const DeltaShape& shape, int64_t width, const Fill& fill) {
  const Shape extents{shape.num_rows, width};
  if (shape.strided) return maker.strided(shape.dtype, extents, width + 19, fill);
  return fill ? maker.input(shape.dtype, extents, fill) : maker.output(shape.dtype, extents);
}

struct BatchOperands {
  Tensor query_start_loc;  // [B+1]
  Tensor state_slots;      // [B]
};

/// Ragged rows, and slots of the states in random order.
BatchOperands make_batch(OperandMaker& maker, const DeltaShape& shape) {
  std::mt19937_64 generator(maker.seed());
  const int64_t limit = shape.records() ? shape.max_records : shape.num_rows;
  const std::vector<int32_t> rows = case_parts::ragged_rows(
      generator, shape.num_sequences, shape.num_rows, shape.num_sequences == 1 ? shape.num_rows : std::min<int64_t>(limit, 5));
  const std::vector<int32_t> slots = case_parts::sample_distinct(generator, shape.num_slots(), shape.num_sequences);
  return {.query_start_loc =
              maker.input(DType::kI32, {shape.num_sequences + 1}, case_parts::listed(case_parts::start_locations(rows))),
          .state_slots = maker.input(DType::kI32, {shape.num_sequences}, case_parts::listed(slots))};
}

CausalConv1dSilu make_conv(OperandMaker& maker, const DeltaShape& shape, int64_t channels) {
  const auto [query_start_loc, state_slots] = make_batch(maker, shape);
  CausalConv1dSilu op;
  op.x = rows_of(maker, shape, channels, fill::normal(1.0));
  op.weight = maker.input(DType::kF32, {channels, 4}, fill::normal(0.5));
  op.query_start_loc = query_start_loc;
  op.state_slots = state_slots;
  op.conv_state = maker.in_out(DType::kF32, {shape.num_slots(), channels, 3}, fill::normal(1.0));
  if (shape.records()) {
    op.conv_record = maker.in_out(DType::kF32, {shape.num_slots(), shape.max_records, channels}, fill::normal(1.0));
  }
  op.out = rows_of(maker, shape, channels, {});
  op.update = shape.update;
  return op;
}

GatedDeltaRule make_delta_rule(OperandMaker& maker, const DeltaShape& shape) {
  const auto [query_start_loc, state_slots] = make_batch(maker, shape);
  const int64_t slots = shape.num_slots();
  GatedDeltaRule op;
  op.qkv = rows_of(maker, shape, shape.channels(), fill::normal(1.0));
  op.b = rows_of(maker, shape, shape.num_value_heads, fill::normal(1.0));
  op.a = rows_of(maker, shape, shape.num_value_heads, fill::normal(1.0));
  op.A_log = maker.input(DType::kF32, {shape.num_value_heads}, fill::uniform(-2.0, 1.5));
  op.dt_bias = maker.input(DType::kF32, {shape.num_value_heads}, fill::normal(1.0));
  op.query_start_loc = query_start_loc;
  op.state_slots = state_slots;
  op.state = maker.in_out(DType::kF32, {slots, shape.num_value_heads, shape.key_dim, shape.value_dim}, fill::normal(0.5));
  if (shape.records()) {
    const int64_t records = shape.max_records;
    op.key_record = maker.in_out(DType::kF32, {slots, records, shape.num_key_heads, shape.key_dim}, fill::normal(1.0));
    op.delta_record = maker.in_out(DType::kF32, {slots, records, shape.num_value_heads, shape.value_dim}, fill::normal(1.0));
    op.decay_record = maker.in_out(DType::kF32, {slots, records, shape.num_value_heads}, fill::uniform(0.0, 1.0));
  }
  op.out = rows_of(maker, shape, shape.num_value_heads * shape.value_dim, {})
               .reshape({shape.num_rows, shape.num_value_heads, shape.value_dim});
  op.update = shape.update;
  op.precision = shape.precision;
  return op;
}

RecurrentCommit make_commit(OperandMaker& maker, const DeltaShape& shape) {
  std::mt19937_64 generator(maker.seed());
  const int64_t slots = shape.num_slots();
  const int64_t records = shape.max_records;
  std::vector<int32_t> counts;
  for (int64_t b = 0; b < shape.num_sequences; ++b) counts.push_back(case_parts::draw(generator, 0, records));
  RecurrentCommit op;
  op.num_commit = maker.input(DType::kI32, {shape.num_sequences}, case_parts::listed(counts));
  op.state_slots = maker.input(DType::kI32, {shape.num_sequences},
                               case_parts::listed(case_parts::sample_distinct(generator, slots, shape.num_sequences)));
  op.conv_record = maker.input(DType::kF32, {slots, records, shape.channels()}, fill::normal(1.0));
  op.key_record = maker.input(DType::kF32, {slots, records, shape.num_key_heads, shape.key_dim}, fill::normal(0.2));
  op.delta_record = maker.input(DType::kF32, {slots, records, shape.num_value_heads, shape.value_dim}, fill::normal(1.0));
  op.decay_record = maker.input(DType::kF32, {slots, records, shape.num_value_heads}, fill::uniform(0.3, 1.0));
  op.conv_state = maker.in_out(DType::kF32, {slots, shape.channels(), 3}, fill::normal(1.0));
  op.state = maker.in_out(DType::kF32, {slots, shape.num_value_heads, shape.key_dim, shape.value_dim}, fill::normal(0.5));
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
  for (const DeltaShape& shape : kShapes) {
    list.push_back({.name = name_of(shape), .make = [shape](OperandMaker& maker) { return make_delta_rule(maker, shape); }});
  }
  static constexpr DeltaShape kPrefills[] = {
      {1, 32, 2, 4, 128, 128, kInPlace, false, DType::kF32, 8, kPrefill},
      {1, 200, 1, 2, 128, 128, kInPlace, false, DType::kF32, 8, kPrefill},
      {1, 70, 1, 2, 64, 64, kInPlace, true, DType::kF32, 8, kPrefill},
      {3, 50, 2, 2, 32, 128, kInPlace, false, DType::kF32, 8, kPrefill},
      {1, 33, 1, 3, 5, 7, kInPlace, false, DType::kF32, 8, kPrefill},
  };
  for (const DeltaShape& shape : kPrefills) {
    list.push_back({.name = name_of(shape),
                    .make = [shape](OperandMaker& maker) { return make_delta_rule(maker, shape); },
                    .tolerance_override = 1e-2});
  }
  return list;
}

std::vector<OpCase<RecurrentCommit>> RecurrentCommit::cases() {
  static constexpr DeltaShape kCommits[] = {
      {.num_sequences = 1, .num_rows = 0, .num_key_heads = 2, .num_value_heads = 4, .key_dim = 128, .value_dim = 128},
      {.num_sequences = 3, .num_rows = 0, .num_key_heads = 2, .num_value_heads = 4, .key_dim = 64, .value_dim = 64},
      {.num_sequences = 4, .num_rows = 0, .num_key_heads = 1, .num_value_heads = 3, .key_dim = 5, .value_dim = 7},
      {.num_sequences = 3,
       .num_rows = 0,
       .num_key_heads = 1,
       .num_value_heads = 1,
       .key_dim = 16,
       .value_dim = 32,
       .max_records = 1},
      {.num_sequences = 1,
       .num_rows = 0,
       .num_key_heads = 1,
       .num_value_heads = 2,
       .key_dim = 64,
       .value_dim = 64,
       .max_records = 16},
  };
  std::vector<OpCase<RecurrentCommit>> list;
  for (const DeltaShape& shape : kCommits) {
    list.push_back({.name = name_of(shape) + case_parts::sized("_R", shape.max_records),
                    .make = [shape](OperandMaker& maker) { return make_commit(maker, shape); }});
  }
  return list;
}

}  // namespace foretoken
