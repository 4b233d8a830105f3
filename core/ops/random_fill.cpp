#include "core/ops/random_fill.h"

#include "core/ops/activations.h"

namespace foretoken {
const OpSchema& RandomFill::schema() {
  static const OpSchema schema =
      OpSchema("random_fill").out("out", {"N"}, kActivationDtypes).tolerance(DType::kF32, 0.0).tolerance(DType::kBF16, 0.0);
  return schema;
}

}  // namespace foretoken
