// A sequence in a paged cache, and what attention over it gives.
#pragma once

#include <cmath>
#include <limits>
#include <numeric>

#include "core/ops/gated_attention.h"
#include "tests/unit/cpu_kernels/direct_list.h"

namespace foretoken::cpu {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr uint16_t kNaNHalf = 0x7fc0;
inline constexpr uint8_t kNaNCode = 0xff;

struct Geometry {
  int64_t query_heads = 4;
  int64_t key_heads = 2;
  int64_t head_dim = 64;
  int64_t block_size = 16;
  int64_t max_seq_len = 1024;
};

/// One sequence of `context` positions whose blocks lie backwards in the cache; unused blocks hold NaN.
class Context {
 public:
  Context(const Geometry& geometry, int64_t context, DType dtype)
      : geometry_(geometry),
        dtype_(dtype),
        num_blocks_((context + geometry.block_size - 1) / geometry.block_size + 2),
        k_(random_floats({num_blocks_, geometry.block_size, geometry.key_heads, geometry.head_dim}, 1)),
        v_(random_floats({num_blocks_, geometry.block_size, geometry.key_heads, geometry.head_dim}, 2)),
        k_half_(DType::kBF16, k_.tensor().shape()),
        v_half_(DType::kBF16, k_.tensor().shape()),
        k_codes_(DType::kE4M3, k_.tensor().shape()),
        v_codes_(DType::kE4M3, k_.tensor().shape()),
        table_(DType::kI32, {1, geometry.max_seq_len / geometry.block_size}) {
    table_.fill(-1);
    const size_t block_floats = k_.size() / static_cast<size_t>(num_blocks_);
    const int64_t used = num_blocks_ - 2;
    for (int64_t i = 0; i < used; ++i) table_.data()[i] = static_cast<int32_t>(used - i);
    for (const int64_t unused : {int64_t{0}, num_blocks_ - 1}) {
      std::fill_n(k_.data() + static_cast<size_t>(unused) * block_floats, block_floats, kNaN);
      std::fill_n(v_.data() + static_cast<size_t>(unused) * block_floats, block_floats, kNaN);
    }
    for (size_t i = 0; i < k_.size(); ++i) {
      k_half_.data()[i] = float_to_bf16(k_.data()[i]);
      v_half_.data()[i] = float_to_bf16(v_.data()[i]);
      k_codes_.data()[i] = float_to_e4m3(k_.data()[i] / k_scale_.data()[0]);
      v_codes_.data()[i] = float_to_e4m3(v_.data()[i] / v_scale_.data()[0]);
    }
  }

  /// Rows [first, first + count) of `q` as the last positions of a sequence of `seq_len`.
  [[nodiscard]] GatedAttention rows(const Floats& q, const Floats& gate, int64_t first, int64_t count, const Ints& seq_len,
                                    const Ints& starts, const Floats& out) const {
    return {.q = q.tensor().rows(first, count),
            .q_gate = gate.tensor().rows(first, count),
            .k_cache = k_cache(),
            .v_cache = v_cache(),
            .k_scale = scale_of(k_scale_),
            .v_scale = scale_of(v_scale_),
            .block_table = table_,
            .seq_lens = seq_len,
            .query_start_loc = starts,
            .out = out,
            .workspace = {},
            .scale = scale(),
            .max_seq_len = geometry_.max_seq_len};
  }

  /// The same, run in ranges of `range` items.
  [[nodiscard]] std::vector<float> attend(Isa isa, uint32_t range, const Floats& q, const Floats& gate, int64_t first,
                                          int64_t count, int64_t seq_len, int64_t max_seq_len = 0) const {
    const Floats out = zeros({count, geometry_.query_heads, geometry_.head_dim});
    out.fill(kNaN);
    const Ints length = ints({static_cast<int32_t>(seq_len)}), starts = ints({0, static_cast<int32_t>(count)});
    GatedAttention op = rows(q, gate, first, count, length, starts, out);
    if (max_seq_len != 0) op.max_seq_len = max_seq_len;
    DirectList(isa, range).run(op);
    return out.values();
  }

  /// float64, of one row and head that sees `length` positions.
  [[nodiscard]] std::vector<double> reference(const float* q, const float* gate, size_t head, size_t length) const {
    const auto dim = static_cast<size_t>(geometry_.head_dim);
    const auto block_size = static_cast<size_t>(geometry_.block_size);
    const size_t key_head = head / static_cast<size_t>(geometry_.query_heads / geometry_.key_heads);
    const auto at = [&](size_t position) {
      const size_t slot = static_cast<size_t>(table_.data()[position / block_size]) * block_size + position % block_size;
      return (slot * static_cast<size_t>(geometry_.key_heads) + key_head) * dim;
    };
    std::vector<double> scores(length);
    for (size_t j = 0; j < length; ++j) {
      for (size_t d = 0; d < dim; ++d) scores[j] += static_cast<double>(q[d]) * key(at(j) + d) * scale();
    }
    const double largest = *std::max_element(scores.begin(), scores.end());
    for (double& score : scores) score = std::exp(score - largest);
    const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
    std::vector<double> out(dim);
    for (size_t d = 0; d < dim; ++d) {
      for (size_t j = 0; j < length; ++j) out[d] += scores[j] / sum * value(at(j) + d);
      out[d] /= 1.0 + std::exp(-static_cast<double>(gate[dim + d]));
    }
    return out;
  }

  /// Poisons position `position` of the cache.
  void poison(size_t position) const {
    const auto block_size = static_cast<size_t>(geometry_.block_size);
    const size_t slot = static_cast<size_t>(table_.data()[position / block_size]) * block_size + position % block_size;
    const auto floats = static_cast<size_t>(geometry_.key_heads * geometry_.head_dim);
    std::fill_n(k_.data() + slot * floats, floats, kNaN);
    std::fill_n(v_.data() + slot * floats, floats, kNaN);
    std::fill_n(k_half_.data() + slot * floats, floats, kNaNHalf);
    std::fill_n(v_half_.data() + slot * floats, floats, kNaNHalf);
    std::fill_n(k_codes_.data() + slot * floats, floats, kNaNCode);
    std::fill_n(v_codes_.data() + slot * floats, floats, kNaNCode);
  }

  [[nodiscard]] const Tensor& k_cache() const { return pick(k_, k_half_, k_codes_); }
  [[nodiscard]] const Tensor& v_cache() const { return pick(v_, v_half_, v_codes_); }
  [[nodiscard]] const Geometry& geometry() const { return geometry_; }
  [[nodiscard]] const Ints& table() const { return table_; }
  [[nodiscard]] float scale() const { return 1.0F / std::sqrt(static_cast<float>(geometry_.head_dim)); }

 private:
  [[nodiscard]] const Tensor& pick(const Floats& full, const Halves& half, const Codes& codes) const {
    return dtype_ == DType::kBF16 ? half.tensor() : dtype_ == DType::kE4M3 ? codes.tensor() : full.tensor();
  }
  [[nodiscard]] Tensor scale_of(const Floats& scale) const { return dtype_ == DType::kE4M3 ? scale.tensor() : Tensor(); }
  [[nodiscard]] double element(const Floats& full, const Halves& half, const Codes& codes, const Floats& scale, size_t i) const {
    if (dtype_ == DType::kE4M3) return static_cast<double>(e4m3_to_float(codes.data()[i])) * scale.data()[0];
    return dtype_ == DType::kBF16 ? bf16_to_float(half.data()[i]) : full.data()[i];
  }
  [[nodiscard]] double key(size_t i) const { return element(k_, k_half_, k_codes_, k_scale_, i); }
  [[nodiscard]] double value(size_t i) const { return element(v_, v_half_, v_codes_, v_scale_, i); }

  Geometry geometry_;
  DType dtype_;
  int64_t num_blocks_;
  Floats k_, v_;
  Halves k_half_, v_half_;
  Codes k_codes_, v_codes_;
  Floats k_scale_{DType::kF32, {1}, {0.013F}}, v_scale_{DType::kF32, {1}, {0.11F}};
  Ints table_;
};

}  // namespace foretoken::cpu
