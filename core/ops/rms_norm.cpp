#include "core/ops/rms_norm.h"

#include "core/ops/activations.h"

namespace foretoken {
const OpSchema& RmsNorm::schema() {
  static const OpSchema schema = OpSchema("rms_norm")
                                     .in("x", {"T", "H"}, kActivationDtypes)
                                     .strided()
                                     .in("weight", {"H"}, kF32Only)
                                     .out("out", {"T", "H"}, kActivationDtypes)
                                     .strided()
                                     .tolerance(DType::kF32, 1e-5)
                                     .tolerance(DType::kBF16, 1e-2);
  return schema;
}

const OpSchema& AddRmsNorm::schema() {
  static const OpSchema schema = OpSchema("add_rms_norm")
                                     .in("x", {"T", "H"}, kActivationDtypes)
                                     .strided()
                                     .in_out("residual", {"T", "H"}, kActivationDtypes)
                                     .strided()
                                     .in("weight", {"H"}, kF32Only)
                                     .out("out", {"T", "H"}, kActivationDtypes)
                                     .strided()
                                     .tolerance(DType::kF32, 1e-5)
                                     .tolerance(DType::kBF16, 1e-2);
  return schema;
}

}  // namespace foretoken
