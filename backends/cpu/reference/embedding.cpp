#include <cmath>

#include "backends/cpu/reference/host_tensor.h"
#include "backends/cpu/reference/reference.h"

namespace foretoken {

void reference(const Embedding& op) {
  const HostTensor ids(op.ids);
  const HostTensor table(op.table);
  const HostTensor out(op.out);
  for (int64_t t = 0; t < out.dim(0); ++t) {
    const int64_t id = ids.integer(t);
    const bool known = id >= 0 && id < table.dim(0);
    for (int64_t h = 0; h < out.dim(1); ++h) out.set(known ? table(id, h) : std::nan(""), t, h);
  }
}

}  // namespace foretoken
