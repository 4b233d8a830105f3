// Fault switches: deliberate bugs that tests turn on to prove that they can fail. Compiled in with FORETOKEN_FAULTS only.
#pragma once

#include <cstdint>

namespace foretoken {

enum class Fault : uint8_t {
  kNone,
  kStateNotCommitted,  // accepted rows of a verify step never reach the recurrent state
  kHiddenOffByOne,     // the drafter gets the hidden state of the neighbouring row
  kDrafterRowLost,     // one accepted position never gets its drafter row
  kVerifyUlp,          // one ulp in row 2 of a verify step
  kStaleBlockTable,    // the block table of the step before
  kBonusTokenDropped   // the target's own token at the end of a round is not emitted
};

#ifdef FORETOKEN_FAULTS
namespace fault {
/// Turns on one fault for the process (kNone: none). For tests; not thread-safe against running work.
void inject(Fault fault);
[[nodiscard]] bool active(Fault fault);
}  // namespace fault
#else
namespace fault {
[[nodiscard]] constexpr bool active(Fault) { return false; }
}  // namespace fault
#endif

}  // namespace foretoken
