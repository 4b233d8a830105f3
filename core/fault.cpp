#include "core/fault.h"

#ifdef FORETOKEN_FAULTS
#include <atomic>

namespace foretoken::fault {
namespace {

std::atomic<Fault>& current() {
  static std::atomic<Fault> fault{Fault::kNone};
  return fault;
}

}  // namespace

void inject(Fault fault) { current().store(fault); }
bool active(Fault fault) { return current().load(std::memory_order_relaxed) == fault; }

}  // namespace foretoken::fault
#endif
