// Runs every case of every operator through every implementation of a backend and holds the results against the float64
// reference.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/conformance/expectations.h"
#include "backends/conformance/report.h"

namespace foretoken {

struct ConformanceOptions {
  std::string op{};                                     // one operator's name; empty: all
  std::string case_contains{};                          // part of a case's name; empty: all
  std::string implementation{};                         // one implementation's name; empty: all
  size_t every_nth_case = 1;                            // 1: all; n: the first of each n, to save time
  uint64_t seed = 0;                                    // another seed gives every case other contents
  bool timings = false;                                 // time the replays of cases that pass
  std::optional<Expectations> expectations{};           // default: those of the backend's name
  std::function<void(const ConformanceEntry&)> seen{};  // called with each entry as it comes, when set
};

/// The names of all operators, in the order in which they run.
[[nodiscard]] std::vector<std::string> conformance_ops();

/// Each case runs in immediate mode, then recorded and replayed three times with other inputs in the same memory. Every operand
/// lies between guard zones; outputs start as NaN; memory that an operator does not declare as written, gaps between rows
/// included, must keep its bytes, and so must rows that the reference leaves alone. A failing case never ends the run.
/// Throws InvalidArgument for an operator that does not exist.
[[nodiscard]] ConformanceReport run_conformance(GpuBackend& backend, const ConformanceOptions& options = {});

}  // namespace foretoken
