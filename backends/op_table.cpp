#include "backends/op_table.h"

#include "core/error.h"
#include "core/log.h"

namespace foretoken {
namespace {

Availability acceptance(const OpImplementation& implementation, const void* op) {
  return implementation.accepts ? implementation.accepts(op) : Availability::yes();
}

}  // namespace

std::span<const OpImplementation> OpTable::find(std::string_view op_name) const {
  const auto found = implementations_.find(op_name);
  if (found == implementations_.end()) return {};
  return found->second;
}

const OpImplementation& OpTable::choose(std::string_view op_name, const void* op) const {
  for (const OpImplementation& implementation : find(op_name)) {
    const Availability accepted = acceptance(implementation, op);
    if (accepted) return implementation;
    if (log_dispatch()) log().info("{}: {} passed over: {}", op_name, implementation.name, accepted.reason());
  }
  throw Error(ErrorCode::kUnsupported, std::string(op_name) + ": " + availability(op_name, op).reason());
}

Availability OpTable::availability(std::string_view op_name, const void* op) const {
  std::string reasons;
  for (const OpImplementation& implementation : find(op_name)) {
    const Availability accepted = acceptance(implementation, op);
    if (accepted) return accepted;
    reasons.append(reasons.empty() ? "" : "; ").append(implementation.name).append(": ").append(accepted.reason());
  }
  return Availability::no("no implementation on this device" + (reasons.empty() ? "" : " (" + reasons + ")"));
}

}  // namespace foretoken
