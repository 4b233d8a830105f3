#include <cmath>
#include <limits>

#include "core/op_case.h"
#include "core/ops/case_parts.h"
#include "core/ops/quantize.h"

namespace foretoken {
namespace {

using case_parts::sized;
using case_parts::with_patch;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A matrix to quantise.
struct Source {
  std::string name;
  int64_t n, k;
  DType dtype;
  Fill fill;
  bool strided = false;
};

Tensor make_source(OperandMaker& maker, const Source& source) {
  const Shape shape{source.n, source.k};
  return source.strided ? maker.strided(source.dtype, shape, source.k + 7, source.fill)
                        : maker.input(source.dtype, shape, source.fill);
}

/// Multiples of a quarter up to 6 in magnitude, a 6 first in each group of 16 columns, and 2688 first of all: scales are powers
/// of two or whole numbers, so many quotients lie in the middle between two codes.
Fill ties() {
  return [](std::mt19937_64& generator, std::span<double> values) {
    fill::integers(-24, 24)(generator, values);
    for (double& value : values) value /= 4.0;
    for (size_t i = 0; i < values.size(); i += kNvfp4Group) values[i] = i == 0 ? 2688.0 : 6.0;
  };
}

/// Whole numbers up to 448 in magnitude with 448 every 16 columns: FP8 scales are 1.
Fill fp8_ties() {
  return [](std::mt19937_64& generator, std::span<double> values) {
    fill::integers(-448, 448)(generator, values);
    for (size_t i = 0; i < values.size(); i += 16) values[i] = -448.0;
  };
}

/// Magnitudes over many powers of two, so that codes below the normal range come up.
Fill wide_range(double lowest, double highest) {
  return [=](std::mt19937_64& generator, std::span<double> values) {
    std::uniform_real_distribution<double> exponent(lowest, highest);
    std::normal_distribution<double> factor;
    for (double& value : values) value = factor(generator) * std::exp2(exponent(generator));
  };
}

/// Up to twice the smallest float32 there is.
Fill smallest() {
  return [](std::mt19937_64& generator, std::span<double> values) {
    fill::integers(-2, 2)(generator, values);
    for (double& value : values) value *= std::numeric_limits<float>::denorm_min();
  };
}

/// Normal, each group of 16 values multiplied by its own power of ten.
Fill scaled_groups(double lowest, double highest) {
  return [=](std::mt19937_64& generator, std::span<double> values) {
    fill::normal(1.0)(generator, values);
    std::uniform_real_distribution<double> exponent(lowest, highest);
    for (size_t i = 0; i < values.size(); i += kNvfp4Group) {
      const double factor = std::pow(10.0, exponent(generator));
      for (size_t j = i; j < std::min(i + kNvfp4Group, values.size()); ++j) values[j] *= factor;
    }
  };
}

/// Contents that are hard for one format or another; K divides by 16.
std::vector<Source> hard_sources() {
  const Fill normal = fill::normal(0.02);
  const double nan = std::nan("");
  std::vector<Source> list;
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const auto add = [&](const char* name, int64_t n, int64_t k, const Fill& fill) {
      list.push_back(
          {.name = std::string(name) + "_" + std::string(to_string(dtype)), .n = n, .k = k, .dtype = dtype, .fill = fill});
    };
    add("zeros", 3, 64, fill::constant(0.0));
    add("minus_zeros", 2, 32, fill::constant(-0.0));
    add("zero_row", 4, 160, with_patch(normal, 160, 160, 0.0));
    add("zero_group", 3, 64, with_patch(normal, 80, 16, -0.0));
    add("ties", 5, 64, ties());
    add("fp8_ties", 5, 144, fp8_ties());
    add("wide_range", 6, 320, wide_range(-30.0, 2.0));
    add("scaled_groups", 6, 320, scaled_groups(-6.0, 1.0));
    add("tiny", 3, 48, fill::normal(1e-37));
    add("huge", 3, 48, fill::uniform(-3e38, 3e38));
    add("nan", 4, 160, with_patch(normal, 170, 1, nan));
    add("infinity", 4, 160, with_patch(normal, 325, 1, -kInfinity));
  }
  list.push_back({.name = "subnormal", .n = 3, .k = 48, .dtype = DType::kF32, .fill = fill::normal(1e-42)});
  list.push_back({.name = "smallest", .n = 3, .k = 48, .dtype = DType::kF32, .fill = smallest()});
  return list;
}

/// Shapes of real weights, cut down, and awkward ones.
std::vector<Source> shaped_sources(std::initializer_list<Shape> shapes) {
  std::vector<Source> list;
  for (const Shape& shape : shapes) {
    for (const DType dtype : {DType::kBF16, DType::kF32}) {
      for (const bool strided : {false, true}) {
        if (strided && dtype == DType::kBF16 && shape[1] > 1000) continue;
        std::string name = sized("N", shape[0]) + sized("_K", shape[1]) + "_" + std::string(to_string(dtype));
        if (strided) name += "_strided";
        list.push_back(
            {.name = name, .n = shape[0], .k = shape[1], .dtype = dtype, .fill = fill::normal(0.02), .strided = strided});
      }
    }
  }
  return list;
}

std::vector<Source> all_sources(std::initializer_list<Shape> shapes) {
  std::vector<Source> list = shaped_sources(shapes);
  for (Source& source : hard_sources()) list.push_back(std::move(source));
  return list;
}

}  // namespace

std::vector<OpCase<AbsMax>> AbsMax::cases() {
  std::vector<Source> sources = all_sources({{1, 5120}, {300, 96}, {1, 1}, {3, 17}, {5000, 3}});
  sources.push_back(
      {.name = "last", .n = 257, .k = 33, .dtype = DType::kBF16, .fill = with_patch(fill::normal(1.0), 8480, 1, -9.5)});
  std::vector<OpCase<AbsMax>> list;
  for (const Source& source : sources) {
    list.push_back({.name = source.name, .make = [source](OperandMaker& maker) {
                      AbsMax op;
                      op.x = make_source(maker, source);
                      op.amax = maker.output(DType::kF32, {1});
                      return op;
                    }});
  }
  return list;
}

std::vector<OpCase<QuantizeFp8Row>> QuantizeFp8Row::cases() {
  std::vector<OpCase<QuantizeFp8Row>> list;
  for (const Source& source : all_sources({{3, 5120}, {130, 64}, {1, 1}, {5, 17}, {9, 100}})) {
    list.push_back({.name = source.name, .make = [source](OperandMaker& maker) {
                      QuantizeFp8Row op;
                      op.x = make_source(maker, source);
                      op.codes = maker.output(DType::kE4M3, {source.n, source.k});
                      op.scale = maker.output(DType::kF32, {source.n});
                      return op;
                    }});
  }
  return list;
}

std::vector<OpCase<QuantizeFp8Block>> QuantizeFp8Block::cases() {
  std::vector<Source> sources = all_sources({{128, 2304}, {256, 128}, {200, 320}, {129, 257}, {1, 1}, {96, 100}, {3, 17}});
  const Fill zero_tile = with_patch(fill::normal(1.0), 0, kFp8BlockExtent * kFp8BlockExtent, 0.0);
  sources.push_back({.name = "zero_tile", .n = 140, .k = 128, .dtype = DType::kBF16, .fill = zero_tile});
  std::vector<OpCase<QuantizeFp8Block>> list;
  for (const Source& source : sources) {
    for (const DType scale_dtype : {DType::kF32, DType::kBF16}) {
      list.push_back({.name = source.name + (scale_dtype == DType::kBF16 ? "_scale-bf16" : ""),
                      .make = [source, scale_dtype](OperandMaker& maker) {
                        QuantizeFp8Block op;
                        op.x = make_source(maker, source);
                        op.codes = maker.output(DType::kE4M3, {source.n, source.k});
                        op.scale = maker.output(scale_dtype, scale_shape(WeightFormat::kFp8Block, op.codes.shape()));
                        return op;
                      }});
    }
  }
  return list;
}

namespace {

/// `column_weight` empty: absent.
OpCase<QuantizeNvfp4> nvfp4_case(const std::string& name, const Source& source, double amax, const Fill& column_weight = {}) {
  return {.name = name, .make = [source, amax, column_weight](OperandMaker& maker) {
            QuantizeNvfp4 op;
            op.x = make_source(maker, source);
            op.amax = maker.input(DType::kF32, {1}, fill::constant(amax));
            if (column_weight) op.column_weight = maker.input(DType::kF32, {source.k}, column_weight);
            op.codes = maker.output(DType::kE2M1, {source.n, source.k});
            op.scale = maker.output(DType::kE4M3, {source.n, source.k / kNvfp4Group});
            op.global_scale = maker.output(DType::kF32, {1});
            return op;
          }};
}

}  // namespace

std::vector<OpCase<QuantizeNvfp4>> QuantizeNvfp4::cases() {
  std::vector<OpCase<QuantizeNvfp4>> list;
  for (const Source& source : all_sources({{2, 5120}, {70, 64}, {1, 16}, {5, 272}, {3, 48}})) {
    // The largest magnitude of random contents is not known here: several that fit more or less.
    for (const char* amax : {"0.1", "2688", "1e-5", "3e38", "1e-40"}) {
      const std::string name = source.name + "_amax-" + amax;
      list.push_back(nvfp4_case(name, source, std::stod(amax)));
      list.push_back(nvfp4_case(name + "_weighted", source, std::stod(amax), fill::uniform(0.1, 9.0)));
    }
  }
  const Source plain{.name = "plain", .n = 3, .k = 64, .dtype = DType::kF32, .fill = fill::normal(0.02)};
  const double nan = std::nan("");
  for (const auto& [name, amax] :
       {std::pair{"amax_0", 0.0}, {"amax_subnormal", 1e-45}, {"amax_nan", nan}, {"amax_inf", kInfinity}}) {
    list.push_back(nvfp4_case(name, plain, amax));
    list.push_back(nvfp4_case(std::string(name) + "_weighted", plain, amax, fill::uniform(0.1, 9.0)));
  }
  for (const auto& [name, column_weight] : {std::pair{"weights_0", fill::constant(0.0)},
                                            {"weights_1", fill::constant(1.0)},
                                            {"weights_some_0", with_patch(fill::constant(2.0), 5, 40, 0.0)},
                                            {"weights_huge", fill::constant(3e38)},
                                            {"weights_one_nan", with_patch(fill::constant(1.0), 20, 1, nan)},
                                            {"weights_wide", wide_range(-30.0, 30.0)}}) {
    list.push_back(nvfp4_case(name, plain, 0.08, column_weight));
  }
  return list;
}

namespace {

struct WeightRecipe {
  WeightFormat format;
  int64_t n, k;
  DType scale_dtype = DType::kF32;
  int64_t block_rows = kFp8BlockExtent;
  int64_t row_groups = 1;
  bool one_scale = false;  // FP8 row: one for all
};

LinearWeight make_weight(OperandMaker& maker, const WeightRecipe& recipe, const Fill& code_fill) {
  LinearWeight w{.weight = maker.input(code_dtype(recipe.format), {recipe.n, recipe.k}, code_fill),
                 .scale = {},
                 .global_scale = {},
                 .format = recipe.format,
                 .block_rows = static_cast<int32_t>(recipe.block_rows)};
  const Shape scales = recipe.one_scale ? Shape{1} : scale_shape(recipe.format, w.weight.shape(), recipe.block_rows);
  switch (recipe.format) {
    case WeightFormat::kF32:
    case WeightFormat::kBF16: break;
    case WeightFormat::kFp8Row:
    case WeightFormat::kFp8Block: w.scale = maker.input(recipe.scale_dtype, scales, fill::uniform(1e-4, 1e-3)); break;
    case WeightFormat::kNvfp4:
      w.scale = maker.input(DType::kE4M3, scales, fill::uniform(0.0, 448.0));
      w.global_scale = maker.input(DType::kF32, {recipe.row_groups}, fill::uniform(1e-5, 1e-4));
      break;
  }
  return w;
}

std::string name_of(const WeightRecipe& recipe, DType out_dtype) {
  std::string name = sized("N", recipe.n) + sized("_K", recipe.k) + "_" + std::string(to_string(recipe.format));
  if (recipe.scale_dtype == DType::kBF16) name += "_scale-bf16";
  if (recipe.block_rows != kFp8BlockExtent) name += sized("_rows", recipe.block_rows);
  if (recipe.row_groups > 1) name += sized("_groups", recipe.row_groups);
  if (recipe.one_scale) name += "_one-scale";
  return name + "_to_" + std::string(to_string(out_dtype));
}

}  // namespace

std::vector<OpCase<Dequantize>> Dequantize::cases() {
  constexpr auto kF32 = DType::kF32;
  constexpr auto kBF16 = DType::kBF16;
  static constexpr WeightRecipe kRecipes[] = {
      {WeightFormat::kF32, 3, 100},
      {WeightFormat::kBF16, 5, 67},
      {WeightFormat::kFp8Row, 7, 192},
      {WeightFormat::kFp8Row, 3, 33, kBF16},
      {WeightFormat::kFp8Row, 6, 65, kF32, kFp8BlockExtent, 1, true},
      {WeightFormat::kFp8Row, 1, 1},
      {WeightFormat::kFp8Block, 256, 384},
      {WeightFormat::kFp8Block, 200, 320, kBF16},
      {WeightFormat::kFp8Block, 192, 200, kF32, 64},
      {WeightFormat::kFp8Block, 70, 130, kBF16, 32},
      {WeightFormat::kFp8Block, 9, 257, kF32, 1},
      {WeightFormat::kFp8Block, 3, 17},
      {WeightFormat::kNvfp4, 5, 320},
      {WeightFormat::kNvfp4, 1, 16},
      {WeightFormat::kNvfp4, 6, 48, kF32, kFp8BlockExtent, 2},
      {WeightFormat::kNvfp4, 12, 272, kF32, kFp8BlockExtent, 4},
  };
  std::vector<OpCase<Dequantize>> list;
  for (const WeightRecipe& recipe : kRecipes) {
    const Fill codes = recipe.format == WeightFormat::kNvfp4 ? fill::uniform(-7.0, 7.0) : wide_range(-10.0, 8.0);
    for (const DType out_dtype : {kF32, kBF16}) {
      list.push_back({.name = name_of(recipe, out_dtype), .make = [=](OperandMaker& maker) {
                        Dequantize op;
                        op.w = make_weight(maker, recipe, codes);
                        op.out = maker.output(out_dtype, {recipe.n, recipe.k});
                        return op;
                      }});
    }
  }
  return list;
}

}  // namespace foretoken
