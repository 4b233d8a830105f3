// Checkpoints in FP8 or NVFP4, made on a device from plain ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

#include "backends/backend.h"
#include "core/linear_weight.h"

namespace foretoken {

/// Which parts of a model are quantised; within them, every linear layer of the decoder layers. The others of a part stay as they
/// are: norms, convolutions, in_proj_a and in_proj_b (in_proj_ba), routers, shared_expert_gate, mtp.fc, embeddings.
struct QuantizeScope {
  bool target = true;
  bool mtp = true;
  bool lm_head = false;  // of a model that ties it to the embedding: a quantised copy is written, the embedding stays

  friend bool operator==(const QuantizeScope&, const QuantizeScope&) = default;
};

/// "target,mtp,lm-head": any of them, in any order. Throws InvalidArgument that lists them.
[[nodiscard]] QuantizeScope parse_quantize_scope(std::string_view list);

struct QuantizeOptions {
  WeightFormat format = WeightFormat::kFp8Block;  // FP8 block, FP8 row or NVFP4
  QuantizeScope scope{};
  DType block_scale_dtype = DType::kF32;                          // of FP8 block scales: F32 or BF16
  std::function<void(uint64_t done, uint64_t total)> progress{};  // bytes read
  uint64_t shard_bytes = 4'000'000'000;                           // a larger layer is a shard by itself
};

struct QuantizeSummary {
  uint64_t source_bytes = 0;
  uint64_t result_bytes = 0;
  size_t num_quantized = 0;  // matrices, experts one by one
};

/// Writes the checkpoint of folder `model` to `output` with the tensor names of official releases: `weight` and
/// `weight_scale_inv` (FP8 block), `weight_scale` [N, 1] (FP8 row), `weight_scale` and `weight_scale_2` (NVFP4); fused experts
/// are split into gate_proj, up_proj and down_proj of each. Other tensors, the tokenizer and the small files beside it are
/// copied; config.json gets a quantization_config that lists every layer left out. The arithmetic is that of core/ops/quantize.h.
/// Throws InvalidArgument that names the tensor (quantised already, columns that NVFP4 cannot group, a dtype that is not F32 or
/// BF16, nothing in scope; an output folder that is not new or empty; a full disk), FormatError (a NaN or infinite weight, files
/// that do not parse), Unsupported (the device has no quantisers). Nothing is left behind then.
QuantizeSummary quantize_checkpoint(GpuBackend& backend, const std::filesystem::path& model, const std::filesystem::path& output,
                                    const QuantizeOptions& options);

}  // namespace foretoken
