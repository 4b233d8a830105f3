#include "backends/cpu/reference/host_tensor.h"
#include "backends/cpu/reference/reference.h"

namespace foretoken {

void reference(const SelectTokens& op) {
  const HostTensor host_token_ids(op.host_token_ids);
  const HostTensor source(op.source);
  const HostTensor source_rows(op.source_rows);
  for (int64_t t = 0; t < host_token_ids.dim(0); ++t) {
    const auto row = static_cast<int64_t>(source_rows(t));
    const bool exists = row >= 0 && row < source.dim(0);
    const double device_id = exists ? source(row) : -1.0;
    HostTensor(op.token_ids).set(host_token_ids(t) >= 0.0 ? host_token_ids(t) : device_id, t);
  }
}

void reference(const AcceptDrafts& op) {
  const HostTensor token_ids(op.token_ids);
  const HostTensor targets(op.target_token_ids);
  const HostTensor query_start_loc(op.query_start_loc);
  for (int64_t b = 0; b + 1 < query_start_loc.dim(0); ++b) {
    const auto first = static_cast<int64_t>(query_start_loc(b));
    const auto end = static_cast<int64_t>(query_start_loc(b + 1));
    int64_t accepted = 0;
    while (first + accepted + 1 < end && token_ids(first + accepted + 1) == targets(first + accepted)) ++accepted;
    HostTensor(op.num_accepted).set(static_cast<double>(accepted), b);
  }
}

}  // namespace foretoken
