#include "backends/op_table.h"

#include "core/error.h"
#include "core/log.h"

namespace foretoken {

std::span<const OpImplementation> OpTable::find(std::string_view op_name) const {
  const auto found = implementations_.find(op_name);
  if (found == implementations_.end()) return {};
  return found->second;
}

const OpImplementation& OpTable::choose(std::string_view op_name, const void* op) const {
  std::string reasons;
  for (const OpImplementation& implementation : find(op_name)) {
    const Availability accepted = implementation.accepts ? implementation.accepts(op) : Availability::yes();
    if (accepted) return implementation;
    if (log_dispatch()) log().info("{}: {} passed over: {}", op_name, implementation.name, accepted.reason());
    reasons += (reasons.empty() ? "" : "; ") + implementation.name + ": " + accepted.reason();
  }
  throw Error(ErrorCode::kUnsupported,
              std::string(op_name) + ": no implementation on this device" + (reasons.empty() ? "" : " (" + reasons + ")"));
}

}  // namespace foretoken
