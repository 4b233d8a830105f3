// What each backend is known not to do, so that a run can tell "known" from "broken".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/capabilities.h"

namespace foretoken {

/// Which cases an expectation is about, and why.
struct Expectation {
  std::string op;             // operator name; "*": every operator
  std::string case_contains;  // part of the case's name; empty: every case
  std::string reason;         // of a failure: starts with its issue number, "#12: ..."
};

struct Expectations {
  std::vector<Expectation> unsupported;       // for ever: the device or the design has no such thing
  std::vector<Expectation> expected_failure;  // a defect that is on file; an unexpected pass is an error
};

/// The lists of a backend, by the name in its capabilities; empty for one that has none.
[[nodiscard]] Expectations expectations_for(std::string_view backend);

/// The same for a device, and what follows from its capabilities: operators do not take weights in a format that it cannot store.
[[nodiscard]] Expectations expectations_for(const Capabilities& capabilities);

/// The first expectation of `list` that covers the case; null when there is none.
[[nodiscard]] const Expectation* find_expectation(const std::vector<Expectation>& list, std::string_view op,
                                                  std::string_view case_name);

}  // namespace foretoken
