#include <cmath>
#include <limits>

#include "core/op_case.h"
#include "core/ops/argmax.h"
#include "core/ops/case_parts.h"

namespace foretoken {
namespace {

OpCase<Argmax> argmax_case(const std::string& name, int64_t num_tokens, int64_t vocab_size, int64_t row_stride,
                           const Fill& fill) {
  return {.name = name, .make = [=](OperandMaker& maker) {
            const Shape extents{num_tokens, vocab_size};
            Argmax op;
            op.logits =
                row_stride > 0 ? maker.strided(DType::kF32, extents, row_stride, fill) : maker.input(DType::kF32, extents, fill);
            op.token_ids = maker.output(DType::kI32, {num_tokens});
            return op;
          }};
}

}  // namespace

std::vector<OpCase<Argmax>> Argmax::cases() {
  using case_parts::with_patch;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double nan = std::nan("");
  std::vector<OpCase<Argmax>> list;
  list.push_back(argmax_case("T1_V248320", 1, 248320, 0, fill::normal(3.0)));
  list.push_back(argmax_case("T16_V4096", 16, 4096, 0, fill::normal(3.0)));
  list.push_back(argmax_case("T1_V1", 1, 1, 0, fill::normal(3.0)));
  list.push_back(argmax_case("T3_V17", 3, 17, 0, fill::normal(3.0)));
  list.push_back(argmax_case("T5_V1003", 5, 1003, 0, fill::normal(3.0)));
  list.push_back(argmax_case("T4_V100_strided", 4, 100, 133, fill::normal(3.0)));
  list.push_back(argmax_case("ties", 8, 1003, 0, fill::integers(-2, 2)));
  list.push_back(argmax_case("all_equal", 2, 4096, 0, fill::constant(-7.0)));
  list.push_back(argmax_case("signed_zeros", 1, 5, 0, fill::values({-1.0, -0.0, 0.0, -3.0, 0.0})));
  list.push_back(argmax_case("nan_row", 3, 100, 0, with_patch(fill::normal(1.0), 100, 100, nan)));
  list.push_back(argmax_case("nan_first", 3, 100, 0, with_patch(fill::normal(1.0), 100, 50, nan)));
  list.push_back(argmax_case("nan_last", 1, 100, 0, with_patch(fill::normal(1.0), 60, 40, nan)));
  list.push_back(
      argmax_case("infinities", 2, 100, 0, with_patch(with_patch(fill::normal(1.0), 30, 2, kInfinity), 120, 40, -kInfinity)));
  list.push_back(argmax_case("minus_infinity_row", 2, 100, 0, fill::constant(-kInfinity)));
  list.push_back(argmax_case("all_negative", 3, 100, 0, fill::uniform(-1e30, -1e20)));
  return list;
}

}  // namespace foretoken
