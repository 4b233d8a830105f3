// Dot products of a few weight rows with a few activation rows, by one warp. The bits of a sum depend on its weight row, its
// activation row, K and the number of slices alone: not on how many rows are computed together, nor on how they are loaded.
#pragma once

#include "backends/gpu/weight_formats.inl"

namespace foretoken::gpu {

/// Activation rows: row r starts `offset[r]` elements after `base`.
template <int kRows>
struct ActivationRows {
  uint64_t base;
  uint32_t offset[kRows];
  bool is_bf16;
};

/// How activations are read: whole vectors of one type, or any memory element by element, zeros from element `end` on. Of the
/// vector at element k, the kPart elements from its `first` on.
struct F32Vectors {
  template <uint32_t kPart, int kRows>
  FORETOKEN_DEVICE static void load(const ActivationRows<kRows>& x, int r, uint32_t k, uint32_t first, uint32_t /*end*/,
                                    float (&values)[kPart]) {
    const auto* vector = pointer<const float4>(x.base + uint64_t{x.offset[r] + k} * 4) + first / 4;
#pragma unroll
    for (uint32_t i = 0; i < kPart; i += 4) {
      const float4 four = vector[i / 4];
      values[i] = four.x;
      values[i + 1] = four.y;
      values[i + 2] = four.z;
      values[i + 3] = four.w;
    }
  }
};
struct Bf16Vectors {
  template <uint32_t kPart, int kRows>
  FORETOKEN_DEVICE static void load(const ActivationRows<kRows>& x, int r, uint32_t k, uint32_t first, uint32_t /*end*/,
                                    float (&values)[kPart]) {
    const uint64_t address = x.base + uint64_t{x.offset[r] + k} * 2;
    uint32_t pairs[kPart / 2];
    if constexpr (kPart == 8) {
      const uint4 eight = pointer<const uint4>(address)[first / 8];
      pairs[0] = eight.x;
      pairs[1] = eight.y;
      pairs[2] = eight.z;
      pairs[3] = eight.w;
    } else {
      static_assert(kPart == 4);
      const uint2 four = pointer<const uint2>(address)[first / 4];
      pairs[0] = four.x;
      pairs[1] = four.y;
    }
#pragma unroll
    for (uint32_t i = 0; i < kPart; i += 2) {
      values[i] = bits_to_float(pairs[i / 2] << 16);
      values[i + 1] = bits_to_float(pairs[i / 2] & 0xffff0000U);
    }
  }
};
struct AnyElements {
  template <uint32_t kPart, int kRows>
  FORETOKEN_DEVICE static void load(const ActivationRows<kRows>& x, int r, uint32_t k, uint32_t first, uint32_t end,
                                    float (&values)[kPart]) {
    for (uint32_t i = 0; i < kPart; ++i) {
      const uint32_t element = k + first + i;
      values[i] = element < end ? load_float(x.base, x.offset[r] + element, x.is_bf16) : 0.0F;
    }
  }
};

/// Warps that one multiprocessor must have registers for, where a lane keeps kSums sums.
template <uint32_t kSums>
inline constexpr int kResidentWarps = kSums <= kNarrowWarpColumns ? 40 : (kSums <= kWarpColumns ? 24 : 16);

/// The weight rows of a tile. The first kFirst have their scales at `first_scale`, the others at `second_scale`.
template <uint32_t kColumns>
struct WeightRows {
  uint64_t codes[kColumns];  // where each starts
  uint32_t index[kColumns];  // for scales
  uint64_t first_scale;
  uint64_t second_scale;
};

/// One vector of each weight row of a tile, with its inner scales as they lie in memory.
template <uint32_t kColumns>
struct TileCodes {
  Codes row[kColumns];
  uint32_t scales[kColumns];
};

/// A lane's first element of a slice, and how far its next one is.
template <class Format>
FORETOKEN_DEVICE uint32_t first_element(uint32_t slice) {
  return (slice * kLanes + threadIdx.x % kLanes) * Format::kVector;
}

/// The vectors at element k, before the end of the rows.
template <class Format, uint32_t kFirst, bool kAligned, uint32_t kColumns>
FORETOKEN_DEVICE TileCodes<kColumns> load_tile(const WeightParams& w, const WeightRows<kColumns>& rows, uint32_t k,
                                               uint32_t in_features) {
  TileCodes<kColumns> codes{};
#pragma unroll
  for (uint32_t c = 0; c < kColumns; ++c) {
    const uint64_t address = rows.codes[c] + Format::bytes(k);
    if constexpr (kAligned) {
      codes.row[c] = load_codes(address);
    } else {
      codes.row[c] = load_code_bytes(address, static_cast<uint32_t>(Format::bytes(smaller(Format::kVector, in_features - k))));
    }
    if constexpr (Format::kScalesInside) {
      const uint64_t scale = c < kFirst ? rows.first_scale : rows.second_scale;
      codes.scales[c] = Format::template load_scales<kAligned>(w, scale, rows.index[c], k, in_features);
    }
  }
  return codes;
}

/// The vectors at a lane's first element of a slice, or any others where the slice has none for it.
template <class Format, uint32_t kFirst, bool kAligned, uint32_t kColumns>
FORETOKEN_DEVICE TileCodes<kColumns> first_tile(const WeightParams& w, const WeightRows<kColumns>& rows, uint32_t slice,
                                                uint32_t in_features) {
  const uint32_t k = first_element<Format>(slice);
  return load_tile<Format, kFirst, kAligned>(w, rows, k < in_features ? k : 0, in_features);
}

/// Adds the products of the vectors at element k: sums[c * kRows + r].
template <class Format, class Activations, uint32_t kColumns, int kRows>
FORETOKEN_DEVICE void add_tile(const WeightParams& w, const ActivationRows<kRows>& x, const TileCodes<kColumns>& codes,
                               uint32_t k, uint32_t in_features, float (&sums)[kColumns * kRows]) {
  constexpr uint32_t kPart = Format::kPart;
  constexpr uint32_t kParts = Format::kVector / kPart;
  // Parts of a vector share the address of its activations, but for FP8 in narrow kernels: that cost blocks 3 % on an H200.
  constexpr bool kOneAddress = kParts > 2 || kColumns * kRows > kNarrowWarpColumns;
#pragma unroll
  for (uint32_t part = 0; part < kParts; ++part) {
    float weight[kColumns][kPart];
    float inner[kColumns];
#pragma unroll
    for (uint32_t c = 0; c < kColumns; ++c) {
      Format::decode(codes.row[c], part, weight[c]);
      if constexpr (Format::kScalesInside) inner[c] = Format::loaded_scale(w, codes.scales[c], part);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float activation[kPart];
      const uint32_t first = part * kPart;
      Activations::load(x, r, kOneAddress ? k : k + first, kOneAddress ? first : 0, in_features, activation);
#pragma unroll
      for (uint32_t c = 0; c < kColumns; ++c) {
        float& sum = sums[c * kRows + r];
        if constexpr (Format::kScalesInside) {
          float dot = 0.0F;
#pragma unroll
          for (uint32_t i = 0; i < kPart; ++i) dot = fmaf(weight[c][i], activation[i], dot);
          sum = fmaf(inner[c], dot, sum);
        } else {
#pragma unroll
          for (uint32_t i = 0; i < kPart; ++i) sum = fmaf(weight[c][i], activation[i], sum);
        }
      }
    }
    finish_part();
  }
}

/// Adds a lane's share of one slice, in order. `codes` are the vectors at its first element; the next ones are always on their
/// way while one is multiplied.
template <class Format, class Activations, uint32_t kFirst, bool kAligned, uint32_t kColumns, int kRows>
FORETOKEN_DEVICE void add_vectors(const WeightParams& w, const WeightRows<kColumns>& rows, const ActivationRows<kRows>& x,
                                  TileCodes<kColumns> codes, uint32_t in_features, uint32_t slice, uint32_t num_slices,
                                  float (&sums)[kColumns * kRows]) {
  const uint32_t step = num_slices * kLanes * Format::kVector;
#pragma unroll 1
  for (uint32_t k = first_element<Format>(slice); k < in_features; k += step) {
    const uint32_t next_k = k + step < in_features ? k + step : k;  // past the last vectors, those at hand again
    const TileCodes<kColumns> next = load_tile<Format, kFirst, kAligned>(w, rows, next_k, in_features);
    add_tile<Format, Activations>(w, x, codes, k, in_features, sums);
    codes = next;
  }
}

template <class Format, uint32_t kFirst, bool kAligned, uint32_t kColumns, int kRows>
FORETOKEN_DEVICE void add_slice(const WeightParams& w, const WeightRows<kColumns>& rows, const ActivationRows<kRows>& x,
                                const TileCodes<kColumns>& codes, uint32_t in_features, uint32_t slice, uint32_t num_slices,
                                float (&sums)[kColumns * kRows]) {
  if constexpr (!kAligned) {
    add_vectors<Format, AnyElements, kFirst, kAligned>(w, rows, x, codes, in_features, slice, num_slices, sums);
  } else if (x.is_bf16) {
    add_vectors<Format, Bf16Vectors, kFirst, kAligned>(w, rows, x, codes, in_features, slice, num_slices, sums);
  } else {
    add_vectors<Format, F32Vectors, kFirst, kAligned>(w, rows, x, codes, in_features, slice, num_slices, sums);
  }
}

/// One step of lane_sums: half of the lanes keep the first half of kWidth values, the others the second half.
template <int kWidth, int n>
FORETOKEN_DEVICE void halve_lane_sums(float (&values)[n]) {
  if constexpr (kWidth > 1) {
    constexpr int kMask = kLanes / 2 * kWidth / n;
    const bool upper = (threadIdx.x & kMask) != 0;
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) {
      const float first = values[i];
      const float second = values[i + kWidth / 2];
      values[i] = (upper ? second : first) + lane_xor(upper ? first : second, kMask);
    }
    halve_lane_sums<kWidth / 2>(values);
  }
}

/// Sums each of n values over the lanes, n a power of two up to kLanes. Lane l gets the sum of value l / (kLanes / n). Every sum
/// is the same tree of additions whatever n is. Written as a recursion because the values must stay in registers.
template <int n>
FORETOKEN_DEVICE float lane_sums(float (&values)[n]) {
  halve_lane_sums<n>(values);
#pragma unroll
  for (int mask = kLanes / n / 2; mask > 0; mask /= 2) values[0] += lane_xor(values[0], mask);
  return values[0];
}

/// Sums of the warps of a work group, and how to read them: value i of tile `group` is the sum of its slices in order.
template <uint32_t kColumns, int kRows, uint32_t kWarps = kLinearWarps>
struct TileSums {
  static constexpr int kValues = int{kColumns} * kRows;
  float part[kWarps][kValues];

  /// Every warp stores its sums; all threads of the work group call this.
  FORETOKEN_DEVICE void store(float (&sums)[kValues]) {
    const uint32_t lane = threadIdx.x % kLanes;
    const float value = lane_sums(sums);
    constexpr uint32_t kShare = kLanes / kValues;
    __syncthreads();  // the values of the tile before have been read
    if (lane % kShare == 0) part[threadIdx.x / kLanes][lane / kShare] = value;
    __syncthreads();
  }
  [[nodiscard]] FORETOKEN_DEVICE float value(uint32_t group, uint32_t i, uint32_t num_slices) const {
    float sum = part[group * num_slices][i];
    for (uint32_t slice = 1; slice < num_slices; ++slice) sum += part[group * num_slices + slice][i];
    return sum;
  }
};

}  // namespace foretoken::gpu
