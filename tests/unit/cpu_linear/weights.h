// Random weights in every format, with the values that the kernels must see in them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "backends/cpu/kernels/linear_params.h"
#include "core/linear_weight.h"
#include "tests/unit/cpu_linear/kernels.h"

namespace foretoken::cpu {

/// A format and how its scales are stored.
struct TestFormat {
  WeightFormat format;
  bool bf16_scale = false;
  uint32_t rows_per_scale = 1;  // FP8 row: 0 for all rows; NVFP4: those of a global scale, 0 for all

  /// The end of the names of its kernels.
  [[nodiscard]] std::string kernel_suffix() const {
    std::string name(to_string(format));
    std::ranges::replace(name, '-', '_');
    return "_" + name;
  }
};

/// The formats that `isa` has kernels for and that rows of `columns` can have.
inline std::vector<TestFormat> formats_of(Isa isa, size_t columns) {
  std::vector<TestFormat> formats{{WeightFormat::kF32},
                                  {WeightFormat::kBF16},
                                  {WeightFormat::kFp8Row, false},
                                  {WeightFormat::kFp8Row, true},
                                  {WeightFormat::kFp8Row, false, 0},
                                  {WeightFormat::kFp8Block, false, 128},
                                  {WeightFormat::kFp8Block, true, 16}};
  if (isa >= Isa::kAvx2 && columns % 16 == 0) {
    formats.push_back({WeightFormat::kNvfp4, false, 0});
    formats.push_back({WeightFormat::kNvfp4, false, 1});
  }
  return formats;
}

/// Matrices [rows, columns] one after another. Values have a standard deviation of about 0.05.
class TestWeight {
 public:
  TestWeight(const TestFormat& format, size_t matrices, size_t rows, size_t columns, uint64_t seed)
      : kernel_suffix_(format.kernel_suffix()), rows_(rows), columns_(columns), values_(matrices * rows * columns) {
    params_.rows = static_cast<uint32_t>(rows);
    params_.scale_is_bf16 = format.bf16_scale ? 1 : 0;
    const uint32_t all = format.format == WeightFormat::kNvfp4 ? params_.rows : 1U << 31;
    params_.rows_per_scale = format.rows_per_scale == 0 ? all : format.rows_per_scale;
    std::mt19937_64 generator(seed);
    switch (format.format) {
      case WeightFormat::kF32:
      case WeightFormat::kBF16: fill_plain(format.format == WeightFormat::kBF16, generator); break;
      case WeightFormat::kFp8Row: fill_fp8(matrices, 1, columns, generator); break;
      case WeightFormat::kFp8Block: fill_fp8(matrices, (columns + 127) / 128, 128, generator); break;
      case WeightFormat::kNvfp4: fill_nvfp4(matrices, generator); break;
    }
    params_.codes = address_of(codes_);
    params_.scale = address_of(scales_);
    params_.global_scale = address_of(global_scales_);
  }

  [[nodiscard]] const WeightParams& params() const { return params_; }
  [[nodiscard]] std::string kernel(const std::string& name) const { return name + kernel_suffix_; }
  /// Row `row` of all matrices times x, float or double.
  template <class Number>
  [[nodiscard]] double dot(const Number* x, size_t row) const {
    double sum = 0.0;
    for (size_t i = 0; i < columns_; ++i) sum += static_cast<double>(x[i]) * values_[row * columns_ + i];
    return sum;
  }

  /// Gives row n of the first matrix the codes of row n % period. Only kernels know the values afterwards.
  void repeat_rows(size_t period) {
    const size_t row_bytes = codes_.size() / (values_.size() / columns_);
    for (size_t row = period; row < rows_; ++row) {
      std::memcpy(codes_.data() + row * row_bytes, codes_.data() + row % period * row_bytes, row_bytes);
    }
  }

 private:
  template <class T>
  static void append(std::vector<std::byte>& bytes, T value) {
    bytes.resize(bytes.size() + sizeof(T));
    std::memcpy(bytes.data() + bytes.size() - sizeof(T), &value, sizeof(T));
  }

  void fill_plain(bool bf16, std::mt19937_64& generator) {
    std::normal_distribution<float> normal(0.0F, 0.05F);
    for (double& value : values_) {
      const float drawn = normal(generator);
      const uint16_t bits = float_to_bf16(drawn);
      if (bf16) {
        append(codes_, bits);
      } else {
        append(codes_, drawn);
      }
      value = static_cast<double>(bf16 ? bf16_to_float(bits) : drawn);
    }
  }

  /// Appends a scale of about `size`, as the format stores it, and gives what it then is.
  double add_scale(float size, std::mt19937_64& generator) {
    const float drawn = std::uniform_real_distribution<float>(0.5F * size, 1.5F * size)(generator);
    if (params_.scale_is_bf16 == 0) {
      append(scales_, drawn);
      return static_cast<double>(drawn);
    }
    append(scales_, float_to_bf16(drawn));
    return static_cast<double>(bf16_to_float(float_to_bf16(drawn)));
  }

  void fill_fp8(size_t matrices, size_t scales_per_row, size_t columns_per_scale, std::mt19937_64& generator) {
    const size_t scale_rows = (rows_ + size_t{params_.rows_per_scale} - 1) / params_.rows_per_scale;
    std::vector<double> scales(matrices * scale_rows * scales_per_row);
    for (double& scale : scales) scale = add_scale(0.0005F, generator);
    for (size_t i = 0; i < values_.size(); ++i) {
      auto code = static_cast<uint8_t>(generator());
      if ((code & 0x7f) == 0x7f) code ^= 1;  // no NaN
      append(codes_, code);
      const size_t matrix = i / (rows_ * columns_);
      const size_t scale_row = i / columns_ % rows_ / params_.rows_per_scale;
      const size_t scale_column = i % columns_ / columns_per_scale;
      values_[i] =
          static_cast<double>(e4m3_to_float(code)) * scales[(matrix * scale_rows + scale_row) * scales_per_row + scale_column];
    }
  }

  void fill_nvfp4(size_t matrices, std::mt19937_64& generator) {
    std::uniform_real_distribution<float> uniform(0.0005F, 0.0015F);
    for (size_t i = 0; i < matrices * rows_ / params_.rows_per_scale; ++i) global_scales_.push_back(uniform(generator));
    codes_.resize(values_.size() / 2);
    for (size_t i = 0; i < values_.size(); ++i) {
      if (i % 16 == 0) append(scales_, static_cast<uint8_t>(generator() % 0x70));
      const auto code = static_cast<uint8_t>(generator() % 16);
      codes_[i / 2] |= static_cast<std::byte>(code << i % 2 * 4);
      values_[i] = static_cast<double>(e2m1_to_float(code)) *
                   static_cast<double>(e4m3_to_float(static_cast<uint8_t>(scales_.back()))) *
                   static_cast<double>(global_scales_[i / columns_ / params_.rows_per_scale]);
    }
  }

  std::string kernel_suffix_;
  size_t rows_, columns_;
  std::vector<double> values_;
  std::vector<std::byte> codes_, scales_;
  std::vector<float> global_scales_;
  WeightParams params_{};
};

}  // namespace foretoken::cpu
