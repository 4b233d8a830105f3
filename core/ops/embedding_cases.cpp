#include "core/op_case.h"
#include "core/ops/case_parts.h"
#include "core/ops/embedding.h"

namespace foretoken {
namespace {

struct EmbeddingShape {
  int64_t vocab_size, hidden_size, num_tokens;
  DType table_dtype, out_dtype;
  int64_t out_stride = 0;  // 0: contiguous
};

constexpr EmbeddingShape kShapes[] = {
    {4096, 192, 5, DType::kBF16, DType::kF32},     {1000, 1024, 3, DType::kBF16, DType::kF32},
    {64, 5120, 1, DType::kBF16, DType::kF32},      {7, 1, 2, DType::kF32, DType::kF32},
    {33, 17, 9, DType::kBF16, DType::kF32},        {100, 2048, 70, DType::kF32, DType::kF32},
    {50, 192, 6, DType::kBF16, DType::kF32, 384},  {50, 33, 6, DType::kF32, DType::kF32, 101},
    {1000, 1024, 3, DType::kBF16, DType::kBF16},   {33, 17, 9, DType::kF32, DType::kBF16},
    {50, 192, 6, DType::kBF16, DType::kBF16, 200},
};

Embedding make(OperandMaker& maker, const EmbeddingShape& shape, const Fill& ids) {
  const Shape out{shape.num_tokens, shape.hidden_size};
  Embedding op;
  op.ids = maker.input(DType::kI32, {shape.num_tokens}, ids);
  op.table = maker.input(shape.table_dtype, {shape.vocab_size, shape.hidden_size}, fill::normal(1.0));
  op.out = shape.out_stride > 0 ? maker.strided(shape.out_dtype, out, shape.out_stride, {}) : maker.output(shape.out_dtype, out);
  return op;
}

}  // namespace

std::vector<OpCase<Embedding>> Embedding::cases() {
  using namespace case_parts;
  std::vector<OpCase<Embedding>> list;
  for (const EmbeddingShape& shape : kShapes) {
    const std::string name = sized("V", shape.vocab_size) + sized("_H", shape.hidden_size) + sized("_T", shape.num_tokens) + "_" +
                             std::string(to_string(shape.table_dtype)) + (shape.out_stride > 0 ? "_strided" : "") +
                             activation_suffix(shape.out_dtype);
    list.push_back({.name = name, .make = [shape](OperandMaker& maker) {
                      return make(maker, shape, fill::integers(0, shape.vocab_size - 1));
                    }});
  }
  const EmbeddingShape hostile{50, 192, 6, DType::kBF16, DType::kF32};
  list.push_back({.name = "ids_out_of_range", .make = [hostile](OperandMaker& maker) {
                    return make(maker, hostile, fill::values({0, -1, 50, 2147483647, -2147483648.0, 49}));
                  }});
  return list;
}

}  // namespace foretoken
