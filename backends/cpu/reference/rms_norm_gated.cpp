#include <cmath>

#include "backends/cpu/reference/activation.h"
#include "backends/cpu/reference/host_tensor.h"
#include "backends/cpu/reference/reference.h"

namespace foretoken {

void reference(const RmsNormGated& op) {
  const HostTensor x(op.x);
  const HostTensor gate(op.gate);
  const HostTensor weight(op.weight);
  const HostTensor out(op.out);
  for (int64_t t = 0; t < x.dim(0); ++t) {
    for (int64_t h = 0; h < x.dim(1); ++h) {
      double sum = 0.0;
      for (int64_t d = 0; d < x.dim(2); ++d) sum += x(t, h, d) * x(t, h, d);
      const double root = std::sqrt(sum / static_cast<double>(x.dim(2)) + static_cast<double>(op.eps));
      for (int64_t d = 0; d < x.dim(2); ++d) out.set(weight(d) * x(t, h, d) / root * silu(gate(t, h, d)), t, h, d);
    }
  }
}

}  // namespace foretoken
