#include "core/op_case.h"
#include "core/ops/case_parts.h"
#include "core/ops/mtp_input.h"

namespace foretoken {
namespace {

struct InputShape {
  int64_t vocab_size, hidden_size, num_tokens;
  DType table_dtype = DType::kBF16;
  DType hidden_dtype = DType::kF32;
  DType out_dtype = DType::kF32;
  bool strided = false;
  int64_t num_hidden = 0;  // rows of hidden that hidden_rows draws from; 0: no hidden_rows
};

constexpr InputShape kShapes[] = {
    {1000, 1024, 1},
    {4096, 192, 5},
    {64, 5120, 2},
    {33, 17, 9},
    {7, 1, 2, DType::kF32},
    {100, 2048, 40, DType::kF32},
    {50, 192, 6, DType::kBF16, DType::kF32, DType::kF32, true},
    {50, 33, 6, DType::kF32, DType::kF32, DType::kF32, true},
    {1000, 1024, 3, DType::kBF16, DType::kBF16, DType::kBF16},
    {64, 5121, 2, DType::kBF16, DType::kBF16, DType::kBF16},
    {33, 17, 9, DType::kF32, DType::kF32, DType::kBF16, true},
    {50, 192, 6, DType::kBF16, DType::kBF16, DType::kF32, true},
    {1000, 1024, 64, DType::kBF16, DType::kF32, DType::kF32, false, 200},
    {100, 2048, 1, DType::kBF16, DType::kF32, DType::kF32, false, 16},
    {33, 17, 9, DType::kF32, DType::kF32, DType::kF32, true, 3},
    {64, 5120, 7, DType::kBF16, DType::kBF16, DType::kBF16, false, 40},
};

MtpInput make(OperandMaker& maker, const InputShape& shape, const Fill& ids, const Fill& hidden, const Fill& hidden_rows) {
  const auto rows = [&](DType dtype, const Shape& extents, const Fill& fill) {
    const int64_t width = extents[1];
    if (shape.strided) return maker.strided(dtype, extents, width + (width % 2 == 0 ? 64 : 5), fill);
    return fill ? maker.input(dtype, extents, fill) : maker.output(dtype, extents);
  };
  MtpInput op;
  op.ids = maker.input(DType::kI32, {shape.num_tokens}, ids);
  op.table = maker.input(shape.table_dtype, {shape.vocab_size, shape.hidden_size}, fill::normal(0.02));
  op.hidden = rows(shape.hidden_dtype, {shape.num_hidden > 0 ? shape.num_hidden : shape.num_tokens, shape.hidden_size}, hidden);
  if (shape.num_hidden > 0) op.hidden_rows = maker.input(DType::kI32, {shape.num_tokens}, hidden_rows);
  op.embedding_norm = maker.input(DType::kF32, {shape.hidden_size}, fill::normal(0.3));
  op.hidden_norm = maker.input(DType::kF32, {shape.hidden_size}, fill::normal(0.3));
  op.out = rows(shape.out_dtype, {shape.num_tokens, 2 * shape.hidden_size}, {});
  return op;
}

std::string name_of(const InputShape& shape) {
  using namespace case_parts;
  const bool has_bf16 = shape.hidden_dtype == DType::kBF16 || shape.out_dtype == DType::kBF16;
  std::string name = sized("V", shape.vocab_size) + sized("_H", shape.hidden_size) + sized("_T", shape.num_tokens);
  if (shape.num_hidden > 0) name += sized("_of-N", shape.num_hidden);
  name.append("_table-").append(to_string(shape.table_dtype)).append(shape.strided ? "_strided" : "");
  return name + (has_bf16 ? "_act-bf16" : "") + (shape.out_dtype == DType::kBF16 ? "_out-bf16" : "");
}

}  // namespace

std::vector<OpCase<MtpInput>> MtpInput::cases() {
  std::vector<OpCase<MtpInput>> list;
  for (const InputShape& shape : kShapes) {
    list.push_back({.name = name_of(shape), .make = [shape](OperandMaker& maker) {
                      return make(maker, shape, fill::integers(0, shape.vocab_size - 1), fill::normal(1.0),
                                  fill::integers(0, shape.num_hidden - 1));
                    }});
  }
  list.push_back({.name = "ids_out_of_range", .make = [](OperandMaker& maker) {
                    const Fill ids = fill::values({0, -1, 50, 2147483647, -2147483648.0, 49});
                    return make(maker, {50, 192, 6}, ids, fill::normal(1.0), {});
                  }});
  list.push_back({.name = "hidden_rows_out_of_range", .make = [](OperandMaker& maker) {
                    const InputShape shape{.vocab_size = 50, .hidden_size = 192, .num_tokens = 6, .num_hidden = 4};
                    const Fill hidden_rows = fill::values({3, -1, 4, 2147483647, -2147483648.0, 0});
                    return make(maker, shape, fill::integers(0, 49), fill::normal(1.0), hidden_rows);
                  }});
  list.push_back({.name = "large_and_small_hidden_states", .make = [](OperandMaker& maker) {
                    return make(maker, {50, 192, 6}, fill::integers(0, 49), case_parts::wide_normal(1e4), {});
                  }});
  return list;
}

}  // namespace foretoken
