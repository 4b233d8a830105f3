#include <cmath>

#include "backends/cpu/reference/host_tensor.h"
#include "backends/cpu/reference/reference.h"

namespace foretoken {

void reference(const RandomFill& op) {
  const HostTensor out(op.out);
  for (int64_t i = 0; i < out.dim(0); ++i) {
    const int integer = random_weight_integer(op.seed, op.tensor_id, static_cast<uint64_t>(i));
    out.set(std::ldexp(static_cast<double>(integer), op.exponent) + static_cast<double>(op.offset), i);
  }
}

}  // namespace foretoken
