// What a model takes and moves, from its tensors and its config alone: for `inspect`, and for shares of the memory bandwidth.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "models/model_config.h"
#include "models/weight_map.h"
#include "models/weight_source.h"

namespace foretoken {

/// The weights of one kind in one format.
struct PartReport {
  bool draft = false;  // of the draft head
  WeightPart part = WeightPart::kNorms;
  WeightFormat format = WeightFormat::kBF16;
  uint64_t num_parameters = 0;  // scales do not count
  uint64_t bytes = 0;           // in device memory, scales included
  uint64_t step_bytes = 0;      // read by one row: of experts the active ones, of the embedding one row
};

/// A format and the bytes of all weights in it.
struct FormatShare {
  WeightFormat format = WeightFormat::kBF16;
  uint64_t bytes = 0;
};

struct MemoryReport {
  std::vector<PartReport> parts;           // target first, then the draft head
  std::vector<FormatShare> target_shares;  // of the target's linear weights, LM head included, the most bytes first
  std::vector<FormatShare> draft_shares;   // of the head's own
  uint64_t target_bytes = 0;
  uint64_t draft_bytes = 0;        // of the head's own weights
  uint64_t target_step_bytes = 0;  // weights that a target step of one row reads
  uint64_t draft_step_bytes = 0;   // weights that one draft pass of one row reads, the LM head included; 0 without a head
  std::string mtp_absent_reason;   // empty when there is a head that can be used
};

/// Throws what plan_weights throws. Whether a device can load a format makes no difference.
[[nodiscard]] MemoryReport memory_report(const WeightSource& source, const ModelConfig& config);

/// Bytes of K and V per token of context in all full-attention layers of the target.
[[nodiscard]] uint64_t target_kv_bytes_per_token(const ModelConfig& config, DType kv_dtype);
/// The same for the draft head's one layer.
[[nodiscard]] uint64_t draft_kv_bytes_per_token(const ModelConfig& config, DType kv_dtype);
/// Bytes of recurrent and convolution state, F32, per sequence.
[[nodiscard]] uint64_t recurrent_state_bytes(const ModelConfig& config);

}  // namespace foretoken
