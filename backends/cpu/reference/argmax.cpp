#include <cmath>

#include "backends/cpu/reference/host_tensor.h"
#include "backends/cpu/reference/reference.h"

namespace foretoken {

void reference(const Argmax& op) {
  const HostTensor logits(op.logits);
  const HostTensor token_ids(op.token_ids);
  for (int64_t t = 0; t < logits.dim(0); ++t) {
    int64_t best = -1;
    for (int64_t v = 0; v < logits.dim(1); ++v) {
      if (!std::isnan(logits(t, v)) && (best < 0 || logits(t, v) > logits(t, best))) best = v;
    }
    token_ids.set(best < 0 ? 0.0 : static_cast<double>(best), t);
  }
}

}  // namespace foretoken
