#include "backends/cpu/reference/host_tensor.h"
#include "backends/cpu/reference/reference.h"

namespace foretoken {

void reference(const AcceptGreedy& op) {
  const HostTensor drafts(op.draft_token_ids);
  const HostTensor targets(op.target_token_ids);
  for (int64_t b = 0; b < drafts.dim(0); ++b) {
    int64_t accepted = 0;
    while (accepted < drafts.dim(1) && drafts(b, accepted) == targets(b, accepted)) ++accepted;
    HostTensor(op.num_accepted).set(static_cast<double>(accepted), b);
  }
}

void reference(const OverrideTokens& op) {
  const HostTensor forced(op.forced);
  const HostTensor token_ids(op.token_ids);
  for (int64_t i = 0; i < forced.dim(0); ++i) {
    if (forced(i) >= 0.0) token_ids.set(forced(i), i);
  }
}

}  // namespace foretoken
