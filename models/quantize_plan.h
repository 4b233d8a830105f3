// Which tensors of a plain checkpoint become which tensors of a quantised one. For the sources of this folder, not for callers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/checkpoint_quantizer.h"
#include "models/safetensors_writer.h"
#include "models/weight_source.h"

namespace foretoken {

/// One tensor to copy, or one matrix to quantise.
struct QuantizeJob {
  size_t source = 0;        // index of the tensor
  uint64_t first_byte = 0;  // of the matrix in it
  int64_t num_rows = 0;     // 0: copied as it is
  int64_t num_columns = 0;
  std::vector<SafetensorsTensor> outputs{};  // the copy; or codes, scales and (NVFP4) the global scale

  [[nodiscard]] bool is_copy() const { return num_rows == 0; }
};

struct QuantizePlan {
  std::vector<QuantizeJob> jobs;
  std::vector<std::string> left_out;  // layers with a matrix that stays as it is
  bool unties_lm_head = false;        // an LM head is written for a model that had none of its own
};

/// Throws InvalidArgument that names a tensor (see quantize_checkpoint).
[[nodiscard]] QuantizePlan plan_quantization(const WeightSource& source, const QuantizeOptions& options);

/// What transformers and other engines read: how the weights are stored, and which layers are not.
[[nodiscard]] nlohmann::json quantization_config(const QuantizePlan& plan, const QuantizeOptions& options);

}  // namespace foretoken
