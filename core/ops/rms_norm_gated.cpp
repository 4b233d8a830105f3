#include "core/ops/rms_norm_gated.h"

#include "core/ops/activations.h"

namespace foretoken {
const OpSchema& RmsNormGated::schema() {
  static const OpSchema schema = OpSchema("rms_norm_gated")
                                     .in("x", {"T", "Hv", "D"}, kActivationDtypes)
                                     .strided()
                                     .in("gate", {"T", "Hv", "D"}, kActivationDtypes)
                                     .strided()
                                     .in("weight", {"D"}, kF32Only)
                                     .out("out", {"T", "Hv", "D"}, kActivationDtypes)
                                     .strided()
                                     .tolerance(DType::kF32, 1e-5)
                                     .tolerance(DType::kBF16, 1e-2);
  return schema;
}

}  // namespace foretoken
