#include "core/linear_weight.h"

namespace foretoken {

std::string_view to_string(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32: return "f32";
    case WeightFormat::kBF16: return "bf16";
    case WeightFormat::kFp8Row: return "fp8-row";
    case WeightFormat::kFp8Block: return "fp8-block";
    case WeightFormat::kNvfp4: return "nvfp4";
  }
  return "unknown";
}

}  // namespace foretoken
