#include <cmath>

#include "core/op_case.h"
#include "core/ops/case_parts.h"
#include "core/ops/linear.h"

namespace foretoken {
namespace {

struct LinearShape {
  int64_t num_tokens, in_features, out_features;
  case_parts::WeightKind weight{};
  DType dtype = DType::kF32;
  bool strided = false;
  LinearPrecision precision = LinearPrecision::kExact;
  bool f32_out = false;  // whatever the activations are
};

/// A shape with BF16 activations and exact results.
constexpr LinearShape bf16_rows(int64_t num_tokens, int64_t in_features, int64_t out_features, case_parts::WeightKind weight = {},
                                bool strided = false) {
  return {.num_tokens = num_tokens,
          .in_features = in_features,
          .out_features = out_features,
          .weight = weight,
          .dtype = DType::kBF16,
          .strided = strided,
          .f32_out = true};
}

using case_parts::WeightKind;
constexpr WeightKind kF32Weight{.format = WeightFormat::kF32};
constexpr WeightKind kBF16Weight{};
constexpr WeightKind kFp8Row{.format = WeightFormat::kFp8Row};
constexpr WeightKind kFp8RowBF16{.format = WeightFormat::kFp8Row, .scale_dtype = DType::kBF16};
constexpr WeightKind kFp8Tensor{.format = WeightFormat::kFp8Row, .one_scale = true};
constexpr WeightKind kFp8TensorBF16{.format = WeightFormat::kFp8Row, .scale_dtype = DType::kBF16, .one_scale = true};
constexpr WeightKind kFp8Block{.format = WeightFormat::kFp8Block};
constexpr WeightKind kFp8BlockBF16{.format = WeightFormat::kFp8Block, .scale_dtype = DType::kBF16};
constexpr WeightKind kFp8Block32{.format = WeightFormat::kFp8Block, .block_rows = 32};
constexpr WeightKind kNvfp4{.format = WeightFormat::kNvfp4};
constexpr WeightKind kNvfp4G2{.format = WeightFormat::kNvfp4, .num_global_scales = 2};
constexpr WeightKind kFp8Block1{.format = WeightFormat::kFp8Block, .scale_dtype = DType::kBF16, .block_rows = 1};

constexpr LinearShape kShapes[] = {
    {1, 1024, 512},
    {1, 5120, 64},
    {2, 17408, 16},
    {1, 192, 4096},
    {3, 2048, 96},
    {4, 192, 512},
    {8, 2560, 40},
    {16, 1024, 64},
    {17, 192, 64},
    {33, 512, 48},
    {1, 1, 1},
    {2, 16, 1},
    {5, 17, 33},
    {3, 100, 7},
    {2, 2047, 33},
    {1, 2048, 64, kF32Weight},
    {4, 192, 192, kF32Weight},
    {16, 64, 40, kF32Weight},
    {3, 33, 17, kF32Weight},
    {4, 192, 100, kBF16Weight, DType::kF32, true},
    {3, 33, 17, kF32Weight, DType::kF32, true},
    {4, 1024, 64, kBF16Weight, DType::kBF16},
    {3, 33, 17, kF32Weight, DType::kBF16, true},
    {32, 1024, 64, kBF16Weight, DType::kF32, false, LinearPrecision::kBF16},
    {64, 192, 512, kBF16Weight, DType::kF32, false, LinearPrecision::kBF16},
    {128, 192, 100, kBF16Weight, DType::kF32, true, LinearPrecision::kBF16},
    {33, 100, 33, kBF16Weight, DType::kF32, false, LinearPrecision::kBF16},
    {32, 192, 64, kF32Weight, DType::kF32, false, LinearPrecision::kBF16},
    {1, 1024, 512, kFp8Row},
    {2, 100, 33, kFp8RowBF16},
    {4, 192, 96, kFp8Tensor},
    {3, 17, 5, kFp8TensorBF16},
    {1, 1, 1, kFp8Row},
    {16, 256, 40, kFp8RowBF16, DType::kF32, true},
    {33, 192, 130, kFp8Row},
    {64, 192, 96, kFp8Row, DType::kF32, false, LinearPrecision::kBF16},
    {1, 5120, 64, kFp8Block},
    {1, 1024, 512, kFp8BlockBF16},
    {2, 17408, 16, kFp8BlockBF16},
    {3, 1000, 300, kFp8Block},
    {4, 192, 320, kFp8BlockBF16},
    {5, 97, 131, kFp8Block, DType::kF32, true},
    {7, 256, 96, kFp8Block32},
    {8, 300, 70, kFp8Block32, DType::kF32, true},
    {6, 160, 9, kFp8Block1},
    {1, 1, 1, kFp8Block},
    {16, 1024, 64, kFp8Block},
    {33, 512, 200, kFp8BlockBF16},
    {40, 320, 192, kFp8BlockBF16, DType::kF32, false, LinearPrecision::kBF16},
    {128, 200, 130, kFp8Block, DType::kF32, true, LinearPrecision::kBF16},
    {1, 1024, 512, kNvfp4},
    {1, 5120, 64, kNvfp4},
    {2, 17408, 16, kNvfp4},
    {4, 192, 320, kNvfp4G2},
    {3, 1008, 34, kNvfp4G2},
    {5, 48, 33, kNvfp4, DType::kF32, true},
    {6, 2576, 40, kNvfp4, DType::kF32, true},
    {7, 80, 64, kNvfp4},
    {1, 16, 1, kNvfp4},
    {16, 1024, 64, kNvfp4},
    {33, 512, 98, kNvfp4G2},
    {64, 192, 96, kNvfp4, DType::kF32, false, LinearPrecision::kBF16},
    bf16_rows(1, 2048, 1000),
    bf16_rows(8, 512, 5000),
    bf16_rows(3, 1088, 333, kBF16Weight, true),
    bf16_rows(9, 2048, 70),
    bf16_rows(2, 17408, 33),
    bf16_rows(17, 5120, 24),
    bf16_rows(1, 2048, 333, kFp8Row),
    bf16_rows(8, 1024, 5000, kFp8RowBF16),
    bf16_rows(5, 640, 97, kFp8Tensor, true),
    bf16_rows(9, 17408, 24, kFp8Row),
    bf16_rows(4, 2048, 300, kFp8Block),
    bf16_rows(8, 1152, 2200, kFp8BlockBF16),
    bf16_rows(6, 256, 96, kFp8Block32, true),
    bf16_rows(7, 5120, 130, kFp8Block1),
    bf16_rows(1, 2048, 333, kNvfp4),
    bf16_rows(8, 1024, 5000, kNvfp4G2),
    bf16_rows(3, 256, 9002, kNvfp4G2),
    bf16_rows(5, 5120, 40, kNvfp4, true),
    bf16_rows(9, 2560, 98, kNvfp4G2),
    bf16_rows(2, 17408, 33, kNvfp4),
    bf16_rows(2, 9216, 3300, kNvfp4),  // long rows and many of them: work groups that share a row take turns
    bf16_rows(4, 528, 65, kNvfp4),
    {300, 640, 264, kBF16Weight, DType::kF32, false, LinearPrecision::kBF16},
    {130, 320, 333, kBF16Weight, DType::kF32, true, LinearPrecision::kBF16},
    {150, 704, 136, kBF16Weight, DType::kBF16, false, LinearPrecision::kBF16},
    {130, 64, 8456, kBF16Weight, DType::kBF16, false, LinearPrecision::kBF16},
    {130, 1024, 200, kFp8RowBF16, DType::kF32, false, LinearPrecision::kBF16},
    {70, 640, 300, kFp8Block, DType::kBF16, false, LinearPrecision::kBF16},
    {65, 640, 130, kNvfp4G2, DType::kF32, false, LinearPrecision::kBF16},
};

std::string name_of(const LinearShape& shape) {
  using namespace case_parts;
  return sized("T", shape.num_tokens) + sized("_K", shape.in_features) + sized("_N", shape.out_features) + "_" +
         name_of(shape.weight) + (shape.strided ? "_strided" : "") +
         (shape.precision == LinearPrecision::kBF16 ? "_prefill" : "") + (shape.f32_out ? "_out-f32" : "") +
         activation_suffix(shape.dtype);
}

/// What rounding the activations to BF16 may cost.
double tolerance_of(const LinearShape& shape) { return shape.precision == LinearPrecision::kBF16 ? 1e-2 : 0.0; }

/// The activations, or without `fill` the results.
Tensor rows_of(OperandMaker& maker, const LinearShape& shape, int64_t width, const Fill& fill) {
  const Shape extents{shape.num_tokens, width};
  const DType dtype = shape.f32_out && !fill ? DType::kF32 : shape.dtype;
  if (shape.strided) return maker.strided(dtype, extents, width + (width % 2 == 0 ? 32 : 3), fill);
  return fill ? maker.input(dtype, extents, fill) : maker.output(dtype, extents);
}

/// Dot products with unit activations have unit size.
double unit_sigma(const LinearShape& shape) { return 1.0 / std::sqrt(static_cast<double>(shape.in_features)); }

LinearWeight weight_of(OperandMaker& maker, const LinearShape& shape) {
  return case_parts::weight_of(maker, shape.weight, {shape.out_features, shape.in_features}, unit_sigma(shape));
}

OpCase<Linear> linear_case(const std::string& name, const LinearShape& shape, const Fill& fill) {
  return {.name = name,
          .make =
              [shape, fill](OperandMaker& maker) {
                Linear op;
                op.x = rows_of(maker, shape, shape.in_features, fill);
                op.w = weight_of(maker, shape);
                op.out = rows_of(maker, shape, shape.out_features, {});
                op.precision = shape.precision;
                return op;
              },
          .tolerance_override = tolerance_of(shape)};
}

}  // namespace

std::vector<OpCase<Linear>> Linear::cases() {
  using case_parts::with_patch;
  std::vector<OpCase<Linear>> list;
  for (const LinearShape& shape : kShapes) list.push_back(linear_case(name_of(shape), shape, fill::normal(1.0)));
  list.push_back(linear_case("large_values", {4, 1024, 64}, fill::normal(1e6)));
  list.push_back(linear_case("nan_row", {4, 192, 64}, with_patch(fill::normal(1.0), 192 + 3, 1, std::nan(""))));
  for (const WeightKind& kind : {kBF16Weight, kFp8Row, kNvfp4}) {
    const std::string suffix = "_" + case_parts::name_of(kind) + "_act-bf16";
    list.push_back(
        linear_case("nan_row" + suffix, bf16_rows(4, 512, 64, kind), with_patch(fill::normal(1.0), 512 + 3, 1, std::nan(""))));
    // Beyond what FP16 can hold, on both sides.
    list.push_back(linear_case("wide_values" + suffix, bf16_rows(3, 512, 64, kind), case_parts::wide_normal(1e12)));
    list.push_back(linear_case("tiny_values" + suffix, bf16_rows(3, 512, 64, kind), case_parts::wide_normal(1e-20)));
    list.push_back(linear_case("zeros" + suffix, bf16_rows(2, 512, 64, kind), fill::constant(0.0)));
  }
  return list;
}

std::vector<OpCase<LinearSiluMul>> LinearSiluMul::cases() {
  std::vector<OpCase<LinearSiluMul>> list;
  const auto add = [&list](const std::string& name, const LinearShape& shape, double sigma) {
    list.push_back({.name = name,
                    .make =
                        [shape, sigma](OperandMaker& maker) {
                          LinearSiluMul op;
                          op.x = rows_of(maker, shape, shape.in_features, fill::normal(sigma));
                          op.gate = weight_of(maker, shape);
                          op.up = weight_of(maker, shape);
                          op.out = rows_of(maker, shape, shape.out_features, {});
                          op.precision = shape.precision;
                          return op;
                        },
                    .tolerance_override = tolerance_of(shape)});
  };
  for (const LinearShape& shape : kShapes) add(name_of(shape), shape, 1.0);
  add("large_gates", {4, 192, 64}, 40.0);
  return list;
}

namespace {

using MakeWeight = std::function<LinearWeight(OperandMaker&)>;

OpCase<LinearArgmax> argmax_case(const std::string& name, const LinearShape& shape, const Fill& x_fill, const MakeWeight& weight,
                                 bool logprobs) {
  return {.name = name, .make = [=](OperandMaker& maker) {
            LinearArgmax op;
            op.x = rows_of(maker, shape, shape.in_features, x_fill);
            op.w = weight(maker);
            op.token_ids = maker.output(DType::kI32, {shape.num_tokens});
            if (logprobs) op.logprobs = maker.output(DType::kF32, {shape.num_tokens});
            return op;
          }};
}

/// The same with a BF16 weight from `weight_fill`.
OpCase<LinearArgmax> argmax_case(const std::string& name, const LinearShape& shape, const Fill& x_fill, const Fill& weight_fill,
                                 bool logprobs) {
  const Shape extents{shape.out_features, shape.in_features};
  return argmax_case(
      name, shape, x_fill,
      [=](OperandMaker& maker) { return case_parts::plain_weight(maker, WeightFormat::kBF16, extents, weight_fill); }, logprobs);
}

/// Small integers whose row n equals row n % period: sums are exact in float32, so the lowest of the equal rows must win.
Fill repeated_rows(int64_t in_features, int64_t period) {
  return [=](std::mt19937_64& generator, std::span<double> values) {
    fill::integers(-3, 3)(generator, values);
    const auto repeat = static_cast<size_t>(in_features * period);
    for (size_t i = repeat; i < values.size(); ++i) values[i] = values[i - repeat];
  };
}

/// Ties of rows that are tokens far apart, in falling order, in falling order. Logits are exact here: no other id is as good.
OpCase<LinearArgmax> mapped_case(const std::string& name, const LinearShape& shape) {
  OpCase<LinearArgmax> mapped =
      argmax_case(name, shape, fill::integers(-3, 3), repeated_rows(shape.in_features, 50), /*logprobs=*/true);
  mapped.make = [make = mapped.make](OperandMaker& maker) {
    LinearArgmax op = make(maker);
    op.token_map = maker.input(DType::kI32, {op.w.out_features()}, [](std::mt19937_64& /*generator*/, std::span<double> values) {
      for (size_t n = 0; n < values.size(); ++n) values[n] = 3.0 * static_cast<double>(values.size() - n) + 7.0;
    });
    return op;
  };
  return mapped;
}

}  // namespace

std::vector<OpCase<LinearArgmax>> LinearArgmax::cases() {
  using case_parts::with_patch;
  static constexpr LinearShape kHeads[] = {
      {1, 192, 4096},
      {8, 192, 4096},
      {1, 1024, 2000},
      {4, 2048, 487},
      {16, 192, 1000},
      {2, 5120, 128},
      {1, 1, 1},
      {3, 17, 33},
      {5, 100, 129},
      {4, 192, 1000, kF32Weight},
      {3, 33, 7, kF32Weight},
      {4, 192, 500, kBF16Weight, DType::kF32, true},
      {4, 1024, 500, kBF16Weight, DType::kBF16},
      {1, 1024, 300, kFp8Row},
      {5, 100, 129, kFp8TensorBF16},
      {4, 192, 500, kFp8RowBF16, DType::kF32, true},
      {1, 1024, 300, kFp8BlockBF16},
      {8, 192, 500, kFp8Block},
      {3, 300, 333, kFp8Block32, DType::kF32, true},
      {1, 1024, 300, kNvfp4},
      {8, 192, 500, kNvfp4G2},
      {3, 304, 333, kNvfp4, DType::kF32, true},
      bf16_rows(1, 2048, 1000),
      bf16_rows(8, 256, 9001),
      bf16_rows(9, 1024, 487, kBF16Weight, true),
      bf16_rows(5, 5120, 300),
      bf16_rows(8, 1024, 3000, kFp8RowBF16),
      bf16_rows(3, 640, 97, kFp8Tensor, true),
      bf16_rows(4, 2048, 500, kFp8Block),
      bf16_rows(1, 5120, 333, kFp8Block32),
      bf16_rows(8, 256, 9002, kNvfp4G2),
      bf16_rows(1, 2048, 333, kNvfp4),
      bf16_rows(17, 512, 98, kNvfp4G2, true),
      bf16_rows(4, 5120, 300, kNvfp4),
  };
  std::vector<OpCase<LinearArgmax>> list;
  for (const LinearShape& shape : kHeads) {
    const MakeWeight weight = [shape](OperandMaker& maker) {
      return case_parts::weight_of(maker, shape.weight, {shape.out_features, shape.in_features}, 2.0 * unit_sigma(shape));
    };
    list.push_back(argmax_case(name_of(shape), shape, fill::normal(1.0), weight, false));
    if (shape.out_features > 1) {
      list.push_back(argmax_case(name_of(shape) + "_logprobs", shape, fill::normal(1.0), weight, true));
    }
  }
  list.push_back(mapped_case("mapped", {8, 192, 1000}));
  list.push_back(mapped_case("mapped_act-bf16", bf16_rows(8, 256, 9000)));
  list.push_back(argmax_case("ties", {8, 192, 1000}, fill::integers(-3, 3), repeated_rows(192, 50), false));
  list.push_back(argmax_case("ties_of_neighbours", {4, 64, 37}, fill::integers(-3, 3), repeated_rows(64, 2), false));
  list.push_back(argmax_case("all_equal", {3, 64, 333}, fill::constant(0.0), fill::normal(1.0), true));
  list.push_back(
      argmax_case("nan_row", {4, 192, 300}, with_patch(fill::normal(1.0), 192 + 3, 1, std::nan("")), fill::normal(0.1), true));
  list.push_back(argmax_case("large_values", {3, 192, 300}, fill::normal(1e3), fill::normal(1.0), false));
  list.push_back(argmax_case("ties_act-bf16", bf16_rows(8, 256, 9000), fill::integers(-3, 3), repeated_rows(256, 50), true));
  list.push_back(argmax_case("all_equal_act-bf16", bf16_rows(3, 64, 333), fill::constant(0.0), fill::normal(1.0), true));
  list.push_back(argmax_case("nan_row_act-bf16", bf16_rows(4, 192, 300), with_patch(fill::normal(1.0), 192 + 3, 1, std::nan("")),
                             fill::normal(0.1), true));
  list.push_back(argmax_case("nan_weights_act-bf16", bf16_rows(4, 64, 3000), fill::normal(1.0),
                             with_patch(fill::normal(0.1), size_t{64} * 7, size_t{64} * 40, std::nan("")), false));
  return list;
}

}  // namespace foretoken
