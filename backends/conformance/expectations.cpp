#include "backends/conformance/expectations.h"

#include <algorithm>

namespace foretoken {

Expectations expectations_for(std::string_view backend) {
  if (backend == "cpu") {
    return {.unsupported = {{.op = "*", .case_contains = "_act-bf16", .reason = "the CPU computes with float32 activations"}},
            .expected_failure = {}};
  }
  return {};
}

const Expectation* find_expectation(const std::vector<Expectation>& list, std::string_view op, std::string_view case_name) {
  const auto found = std::ranges::find_if(list, [&](const Expectation& expectation) {
    return (expectation.op == "*" || expectation.op == op) && case_name.find(expectation.case_contains) != std::string_view::npos;
  });
  return found == list.end() ? nullptr : &*found;
}

}  // namespace foretoken
