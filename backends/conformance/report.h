// What a conformance run found, as data, as a table for people and as JSON for machines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace foretoken {

enum class ConformanceOutcome : uint8_t {
  kPassed,
  kFailed,
  kRefused,          // this implementation does not take the operands; another one does
  kUnsupported,      // no implementation takes them, and the backend lists that with its reason
  kExpectedFailure,  // fails as listed, with an issue number
};

/// "passed", "failed", ...
[[nodiscard]] std::string_view to_string(ConformanceOutcome outcome);

/// One case of one operator through one implementation in one mode.
struct ConformanceEntry {
  std::string op;
  std::string case_name;
  std::string implementation;  // empty when the operator has none that takes the case
  std::string mode;            // "immediate", "replayed", or empty when nothing ran
  ConformanceOutcome outcome = ConformanceOutcome::kPassed;
  std::string detail;           // why it failed, was refused or is unsupported
  double relative_error = 0.0;  // worst row over all float outputs
  double tolerance = 0.0;       // the bound of that row's operand
};

/// The time of one case that passed.
struct ConformanceTiming {
  std::string op;
  std::string case_name;
  std::string implementation;
  double median_us = 0.0;      // of one replay among many in a row
  uint64_t operand_bytes = 0;  // of all operands; what a kernel reads of tables and caches may be less

  [[nodiscard]] double gb_per_s() const { return static_cast<double>(operand_bytes) / median_us / 1e3; }
};

struct ConformanceReport {
  std::string backend;
  std::string device;
  std::string instruction_set;
  std::vector<ConformanceEntry> entries{};
  std::vector<ConformanceTiming> timings{};  // where they were asked for

  /// Whether at least one entry exists and none failed.
  [[nodiscard]] bool passed() const;
  [[nodiscard]] size_t count(ConformanceOutcome outcome) const;
  /// A row per operator and implementation, then each failure, then each reason why something did not run, then the timings.
  [[nodiscard]] std::string to_table() const;
  /// {"backend", "device", "instruction_set", "passed", "counts": {...}, "entries": [...], "timings": [...]}.
  [[nodiscard]] std::string to_json() const;
};

}  // namespace foretoken
