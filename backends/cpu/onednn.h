// BF16 matrix products through oneDNN, the only place that knows it. A product is a kernel like any other: the threads of our
// pool call oneDNN, each for a part of its own and on that thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/capabilities.h"
#include "backends/cpu/kernel_entry.h"

namespace foretoken::cpu {

/// Whether this build has oneDNN and this CPU multiplies BF16 matrices (AVX512_BF16 or AMX).
[[nodiscard]] Availability onednn_bf16();

/// product[n, t] = sum_k weight[n, k] * x[t, k] for a slice of N and a chunk of T: BF16 in, F32 out.
/// Weights are read where they are, row by row; x is packed once per call into a layout that oneDNN chooses.
class Bf16Matmul;

/// The product of these sizes, created when first asked for and kept. Thread-safe. Throws Unsupported where onednn_bf16() says
/// no, DeviceError when oneDNN refuses.
[[nodiscard]] const Bf16Matmul& bf16_matmul(uint32_t slice_rows, uint32_t in_features, uint32_t chunk_rows);
/// Bytes of a packed chunk of x.
[[nodiscard]] size_t packed_bytes(const Bf16Matmul& matmul);

/// The products of a call whose T is cut into chunks and whose N into slices; the last of each may be smaller.
struct Bf16MatmulParams {
  uint64_t matmuls[2][2];  // const Bf16Matmul*: [is last slice][is last chunk]
  uint64_t x;              // [padded rows, in_features] BF16
  uint64_t packed;         // chunks, packed_stride bytes apart
  uint64_t packed_stride;
  uint64_t weight;   // [out_features, in_features] BF16
  uint64_t product;  // [chunk][out_features][rows of the chunk] F32
  uint32_t in_features;
  uint32_t out_features;
  uint32_t slice_rows;
  uint32_t num_slices;
  uint32_t num_chunks;
  uint32_t reserved;
};

/// "onednn_pack" (items: chunks) and "onednn_matmul" (item i: chunk i % num_chunks of slice i / num_chunks), both over
/// Bf16MatmulParams; nothing where onednn_bf16() says no.
[[nodiscard]] std::span<const KernelEntry> onednn_kernels();

}  // namespace foretoken::cpu
