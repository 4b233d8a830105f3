#include "core/ops/mtp_input.h"

#include "core/ops/activations.h"

namespace foretoken {

const OpSchema& MtpInput::schema() {
  static const OpSchema schema = OpSchema("mtp_input")
                                     .in("ids", {"T"}, kI32Only)
                                     .in("table", {"V", "H"}, kActivationDtypes)
                                     .in("hidden", {"T", "H"}, kActivationDtypes)
                                     .strided()
                                     .in("embedding_norm", {"H"}, kF32Only)
                                     .in("hidden_norm", {"H"}, kF32Only)
                                     .out("out", {"T", "2*H"}, kActivationDtypes)
                                     .strided()
                                     .tolerance(DType::kF32, 1e-5)
                                     .tolerance(DType::kBF16, 1e-2);
  return schema;
}

}  // namespace foretoken
