#include "core/ops/embedding.h"

#include "core/ops/activations.h"

namespace foretoken {
const OpSchema& Embedding::schema() {
  static const OpSchema schema = OpSchema("embedding")
                                     .in("ids", {"T"}, kI32Only)
                                     .in("table", {"V", "H"}, kActivationDtypes)
                                     .out("out", {"T", "H"}, kActivationDtypes)
                                     .strided()
                                     .tolerance(DType::kF32, 1e-5)
                                     .tolerance(DType::kBF16, 1e-2);
  return schema;
}

}  // namespace foretoken
