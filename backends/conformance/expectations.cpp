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

Expectations expectations_for(const Capabilities& capabilities) {
  Expectations list = expectations_for(capabilities.backend);
  for (const WeightFormatSupport& support : capabilities.weight_formats) {
    if (support.storable) continue;
    for (const char* op : {"linear", "linear_group", "linear_silu_mul", "linear_argmax", "moe_experts_up", "moe_experts_down"}) {
      list.unsupported.push_back(
          {.op = op, .case_contains = "_" + std::string(to_string(support.format)), .reason = support.storable.reason()});
    }
  }
  return list;
}

const Expectation* find_expectation(const std::vector<Expectation>& list, std::string_view op, std::string_view case_name) {
  const auto found = std::ranges::find_if(list, [&](const Expectation& expectation) {
    return (expectation.op == "*" || expectation.op == op) && case_name.find(expectation.case_contains) != std::string_view::npos;
  });
  return found == list.end() ? nullptr : &*found;
}

}  // namespace foretoken
