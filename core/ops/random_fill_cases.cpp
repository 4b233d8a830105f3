#include "core/op_case.h"
#include "core/ops/case_parts.h"
#include "core/ops/random_fill.h"

namespace foretoken {

std::vector<OpCase<RandomFill>> RandomFill::cases() {
  struct Recipe {
    int64_t count;
    DType dtype;
    uint64_t seed, tensor_id;
    int exponent;
    float offset;
  };
  static constexpr Recipe kRecipes[] = {
      {1, DType::kF32, 0, 0, 0, 0.0F},       {1000, DType::kF32, 1, 7, -7, 0.0F},
      {4097, DType::kBF16, 1, 8, -12, 0.0F}, {33, DType::kBF16, ~0ULL, ~0ULL, -3, 0.0F},
      {1003, DType::kF32, 42, 9, -7, 1.0F},  {1003, DType::kBF16, 42, 9, -9, 1.0F},
      {65, DType::kF32, 3, 2, -10, -0.5F},
  };
  std::vector<OpCase<RandomFill>> list;
  for (const Recipe& recipe : kRecipes) {
    std::string name = case_parts::sized("N", recipe.count);
    name += '_';
    name += to_string(recipe.dtype);
    if (recipe.offset != 0.0F) name += "_offset";
    list.push_back({.name = name, .make = [recipe](OperandMaker& maker) {
                      RandomFill op;
                      op.out = maker.output(recipe.dtype, {recipe.count});
                      op.seed = recipe.seed;
                      op.tensor_id = recipe.tensor_id;
                      op.exponent = recipe.exponent;
                      op.offset = recipe.offset;
                      return op;
                    }});
  }
  return list;
}

}  // namespace foretoken
