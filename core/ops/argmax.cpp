#include "core/ops/argmax.h"

#include "core/ops/activations.h"

namespace foretoken {
const OpSchema& Argmax::schema() {
  static const OpSchema schema =
      OpSchema("argmax").in("logits", {"T", "V"}, kF32Only).strided().out("token_ids", {"T"}, kI32Only);
  return schema;
}

}  // namespace foretoken
