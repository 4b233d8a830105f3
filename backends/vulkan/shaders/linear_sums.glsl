// Dot products of kWarpColumns weight rows with up to ROWS activation rows, by one logical warp. The bits of a sum depend on its
// weight row, its activation row, K and the number of slices alone: not on ROWS, nor on how rows are loaded (ALIGNED: in whole
// vectors). Every product is added by fma and every other sum is `precise`, so that all variants round alike.
#ifndef FORETOKEN_LINEAR_SUMS_GLSL
#define FORETOKEN_LINEAR_SUMS_GLSL

#include "backends/vulkan/shaders/weight_formats.glsl"

// Activation rows: row r starts `offset[r]` elements after `base`.
struct ActivationRows {
  uint64_t base;
  uint offset[ROWS];
};

// The weight rows of a tile: where the codes and the scales of each start, as an address and bytes after it.
struct WeightRows {
  uint64_t codes[kWarpColumns];
  uint64_t scales[kWarpColumns];
  uint code_offset[kWarpColumns];
  uint scale_offset[kWarpColumns];
};

// Codes of one vector of each weight row of a tile, and their scales.
struct Tile {
  uvec4 codes[kWarpColumns];
  uint scales[kWarpColumns];  // as they are stored
};

const uint kTileValues = kWarpColumns * ROWS;

// The activation rows from `first` on; past the last one it is repeated, and its results are not stored.
ActivationRows activation_rows(uint64_t x, uint64_t stride, uint first, uint num_rows) {
  ActivationRows rows;
  rows.base = x;
  [[unroll]] for (uint r = 0; r < ROWS; ++r) rows.offset[r] = uint(min(first + r, num_rows - 1) * stride);
  return rows;
}

// Row n of a weight, at or after row `first`, which is the same for the whole work group. NVFP4 is bound by instructions: its
// addresses are those of `first`, which need no arithmetic of the lanes, and 32 bits of each lane's own.
void set_weight_row(inout WeightRows rows, uint c, const WeightParams w, uint first, uint n, uint in_features) {
  const uint anchor = FORMAT == FORMAT_NVFP4 ? first : n;
  rows.codes[c] = w.codes + code_bytes(uint64_t(anchor) * in_features);
  rows.scales[c] = row_scales(w, anchor);
  rows.code_offset[c] = uint(code_bytes((n - anchor) * in_features));
  rows.scale_offset[c] = (n - anchor) * w.scale_columns;
}

// Rows n .. n + kWarpColumns - 1 of one weight; past the last one it is repeated.
WeightRows weight_rows(const WeightParams w, uint first, uint n, uint out_features, uint in_features) {
  WeightRows rows;
  [[unroll]] for (uint c = 0; c < kWarpColumns; ++c) {
    set_weight_row(rows, c, w, first, min(n + c, out_features - 1), in_features);
  }
  return rows;
}

uint64_t code_address(const WeightRows rows, uint c, uint k) {
#if FORMAT == FORMAT_NVFP4
  return rows.codes[c] + uint64_t(rows.code_offset[c] + k / 2);
#else
  return rows.codes[c] + code_bytes(k);
#endif
}

// The vectors at element k.
Tile load_tile(const WeightRows rows, uint k, uint in_features, uint scale_is_bf16) {
  Tile tile;
  [[unroll]] for (uint c = 0; c < kWarpColumns; ++c) {
    const uint64_t address = code_address(rows, c, k);
#if ALIGNED
    tile.codes[c] = load_codes(address);
#else
    tile.codes[c] = load_code_bytes(address, uint(code_bytes(min(kVector, in_features - k))));
#endif
  }
#if SCALES_INSIDE
  [[unroll]] for (uint c = 0; c < kWarpColumns; ++c) {
    tile.scales[c] = load_scale(rows.scales[c], rows.scale_offset[c], k, scale_is_bf16);
  }
#endif
  return tile;
}

// Where element k of row r lies, for elements of `bytes` bytes. Elements of a call are counted in 32 bits; of NVFP4, which is
// bound by instructions, they are added in them too.
uint64_t activation_address(const ActivationRows x, uint r, uint k, const uint bytes) {
#if FORMAT == FORMAT_NVFP4
  return x.base + uint64_t(x.offset[r] + k) * bytes;
#else
  return x.base + (uint64_t(x.offset[r]) + k) * bytes;
#endif
}

// kPart activations of row r from element k on.
void load_activations(const ActivationRows x, uint r, uint k, uint in_features, const uint is_bf16, out float values[kPart]) {
#if ALIGNED
  if (is_bf16 == 0) {
    const uint64_t first = activation_address(x, r, k, 4);
    [[unroll]] for (uint i = 0; i < kPart; i += 4) {
      const vec4 four = F32x4Ref(first + i * 4).value;
      [[unroll]] for (uint j = 0; j < 4; ++j) values[i + j] = four[j];
    }
  } else {
    const uint64_t first = activation_address(x, r, k, 2);
#if FORMAT == FORMAT_F32
    const uvec4 pairs = uvec4(U32x2Ref(first).value, 0, 0);
#else
    const uvec4 pairs = U32x4Ref(first).value;
#endif
    [[unroll]] for (uint j = 0; j < kPart / 2; ++j) {
      values[2 * j] = uintBitsToFloat(pairs[j] << 16);
      values[2 * j + 1] = uintBitsToFloat(pairs[j] & 0xffff0000u);
    }
  }
#else
  [[unroll]] for (uint i = 0; i < kPart; ++i) {
    values[i] = k + i < in_features ? load_float(x.base, uint64_t(x.offset[r]) + k + i, is_bf16) : 0.0;
  }
#endif
}

// Adds the products of kPart elements from k on with row r.
void add_products(const float weights[kWarpColumns][kPart], const ActivationRows x, const uint r, uint k, uint in_features,
                  const uint is_bf16, const float scales[kWarpColumns], inout float sums[kTileValues]) {
  float activations[kPart];
  load_activations(x, r, k, in_features, is_bf16, activations);
  [[unroll]] for (uint c = 0; c < kWarpColumns; ++c) {
    precise float sum = SCALES_INSIDE != 0 ? 0.0 : sums[c * ROWS + r];
    [[unroll]] for (uint i = 0; i < kPart; ++i) sum = fma(weights[c][i], activations[i], sum);
#if SCALES_INSIDE
    sum = fma(scales[c], sum, sums[c * ROWS + r]);
#endif
    sums[c * ROWS + r] = sum;
  }
}

// Adds the products of the vectors at element k for the first `live` rows: sums[c * ROWS + r]. `largest_scales` are those met.
void add_tile(const Tile tile, const ActivationRows x, uint k, uint in_features, const uint is_bf16, const uint live,
              inout float largest_scales[kWarpColumns], inout float sums[kTileValues]) {
  float scales[kWarpColumns];
  [[unroll]] for (uint c = 0; c < kWarpColumns; ++c) {
    scales[c] = SCALES_INSIDE != 0 ? scale_value(tile.scales[c]) : 1.0;
    largest_scales[c] = max(largest_scales[c], abs(scales[c]));
  }
  [[unroll]] for (uint part = 0; part < kVector / kPart; ++part) {
    float weights[kWarpColumns][kPart];
    [[unroll]] for (uint c = 0; c < kWarpColumns; ++c) decode(tile.codes[c], part, weights[c]);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
      if (r < live) add_products(weights, x, r, k + part * kPart, in_features, is_bf16, scales, sums);
    }
  }
}

// Makes the sums of weight rows with codes that decode() does not make NaN NaN.
void add_nan_codes(const Tile tile, inout float sums[kTileValues]) {
#if CODES_MAY_BE_NAN
  uint any = 0;
  [[unroll]] for (uint c = 0; c < kWarpColumns; ++c) any |= nan_codes(tile.codes[c]);
  if (any == 0) return;
  [[unroll]] for (uint c = 0; c < kWarpColumns; ++c) {
    if (nan_codes(tile.codes[c]) != 0) {
      [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[c * ROWS + r] = kNan;
    }
  }
#endif
}

// The same for scales of NVFP4.
void add_nan_scales(const float largest_scales[kWarpColumns], inout float sums[kTileValues]) {
#if FORMAT == FORMAT_NVFP4
  [[unroll]] for (uint c = 0; c < kWarpColumns; ++c) {
    if (largest_scales[c] > kLargestScale) {
      [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[c * ROWS + r] = kNan;
    }
  }
#endif
}

float[kTileValues] no_sums() {
  float sums[kTileValues];
  [[unroll]] for (uint i = 0; i < kTileValues; ++i) sums[i] = 0.0;
  return sums;
}

// Adds a lane's share of one slice, in order. `is_bf16` and `live` are constants where this is called.
void add_vectors(const WeightParams w, const WeightRows rows, const ActivationRows x, uint in_features, uint slice,
                 uint num_slices, const uint is_bf16, const uint live, inout float sums[kTileValues]) {
  const uint step = num_slices * kLanes * kVector;
  uint k = (slice * kLanes + lane_index()) * kVector;
  float largest_scales[kWarpColumns];
  [[unroll]] for (uint c = 0; c < kWarpColumns; ++c) largest_scales[c] = 0.0;
#if PREFETCH
  if (k < in_features) {
    Tile tile = load_tile(rows, k, in_features, w.scale_is_bf16);
    for (; k < in_features; k += step) {
      // Past the last vectors, those that are at hand are loaded again.
      const Tile next = load_tile(rows, k + step < in_features ? k + step : k, in_features, w.scale_is_bf16);
      add_tile(tile, x, k, in_features, is_bf16, live, largest_scales, sums);
      add_nan_codes(tile, sums);
      tile = next;
    }
  }
#else
  for (; k < in_features; k += step) {
    const Tile tile = load_tile(rows, k, in_features, w.scale_is_bf16);
    add_tile(tile, x, k, in_features, is_bf16, live, largest_scales, sums);
    add_nan_codes(tile, sums);
  }
#endif
  add_nan_scales(largest_scales, sums);
}

// The same for activations of either type.
void add_slice(const WeightParams w, const WeightRows rows, const ActivationRows x, uint in_features, uint slice, uint num_slices,
               uint is_bf16, const uint live, inout float sums[kTileValues]) {
  if (is_bf16 != 0) {
    add_vectors(w, rows, x, in_features, slice, num_slices, 1, live, sums);
  } else {
    add_vectors(w, rows, x, in_features, slice, num_slices, 0, live, sums);
  }
}

#endif
