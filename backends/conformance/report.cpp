#include "backends/conformance/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace foretoken {
namespace {

constexpr ConformanceOutcome kOutcomes[] = {ConformanceOutcome::kPassed, ConformanceOutcome::kFailed,
                                            ConformanceOutcome::kRefused, ConformanceOutcome::kUnsupported,
                                            ConformanceOutcome::kExpectedFailure};

constexpr std::string_view kNotes =
    "Error: max |got - expected| / max |expected| of a row (the last axis; axes are joined until a row has 16 elements).\n"
    "Integers must be equal. linear_argmax alone may pick another id, when its float64 logit lies within the bound of the best\n"
    "one but is not equal to it.\n";

/// One line of the table.
struct Line {
  std::string op;
  std::string implementation;
  std::map<ConformanceOutcome, size_t> counts;
  const ConformanceEntry* worst = nullptr;  // nearest to its bound
};

double share_of_bound(const ConformanceEntry& entry) {
  return entry.tolerance > 0.0 ? entry.relative_error / entry.tolerance : entry.relative_error;
}

std::vector<Line> lines_of(const std::vector<ConformanceEntry>& entries) {
  std::vector<Line> lines;
  for (const ConformanceEntry& entry : entries) {
    auto line = std::ranges::find_if(
        lines, [&](const Line& other) { return other.op == entry.op && other.implementation == entry.implementation; });
    if (line == lines.end()) {
      line = lines.insert(lines.end(), {.op = entry.op, .implementation = entry.implementation, .counts = {}, .worst = nullptr});
    }
    ++line->counts[entry.outcome];
    if (line->worst == nullptr || share_of_bound(entry) > share_of_bound(*line->worst)) line->worst = &entry;
  }
  return lines;
}

/// Each different reason once, with how many cases it stands for.
std::string reasons_of(const std::vector<ConformanceEntry>& entries, ConformanceOutcome outcome) {
  std::vector<std::pair<std::string, size_t>> reasons;
  for (const ConformanceEntry& entry : entries) {
    if (entry.outcome != outcome) continue;
    const std::string text = entry.op + (entry.implementation.empty() ? "" : "/" + entry.implementation) + ": " + entry.detail;
    const auto known = std::ranges::find(reasons, text, &std::pair<std::string, size_t>::first);
    if (known == reasons.end()) {
      reasons.emplace_back(text, 1);
    } else {
      ++known->second;
    }
  }
  std::string listed;
  for (const auto& [text, times] : reasons) listed += fmt::format("  {} ({})\n", text, times);
  return listed.empty() ? "" : fmt::format("{}:\n{}", to_string(outcome), listed);
}

std::string timing_table(const std::vector<ConformanceTiming>& timings) {
  if (timings.empty()) return {};
  std::string text = fmt::format("{:<20} {:<18} {:>10} {:>8}   {}\n", "operator", "implementation", "us", "GB/s", "case");
  for (const ConformanceTiming& timing : timings) {
    text += fmt::format("{:<20} {:<18} {:>10.2f} {:>8.2f}   {}\n", timing.op, timing.implementation, timing.median_us,
                        timing.gb_per_s(), timing.case_name);
  }
  return text + "us: median of one replay among many in a row. GB/s: bytes of all operands over it.\n";
}

}  // namespace

std::string_view to_string(ConformanceOutcome outcome) {
  switch (outcome) {
    case ConformanceOutcome::kPassed: return "passed";
    case ConformanceOutcome::kFailed: return "failed";
    case ConformanceOutcome::kRefused: return "refused";
    case ConformanceOutcome::kUnsupported: return "unsupported";
    case ConformanceOutcome::kExpectedFailure: return "expected failure";
  }
  return "unknown";
}

size_t ConformanceReport::count(ConformanceOutcome outcome) const {
  return static_cast<size_t>(std::ranges::count(entries, outcome, &ConformanceEntry::outcome));
}

bool ConformanceReport::passed() const { return !entries.empty() && count(ConformanceOutcome::kFailed) == 0; }

std::string ConformanceReport::to_table() const {
  std::string text = fmt::format("{} ({}, {})\n", backend, device, instruction_set);
  text += fmt::format("{:<20} {:<18} {:>6} {:>6} {:>7} {:>11} {:>8}   {}\n", "operator", "implementation", "passed", "failed",
                      "refused", "unsupported", "expected", "worst error / bound");
  for (Line& line : lines_of(entries)) {
    const bool measured = line.worst->relative_error > 0.0;
    const std::string worst =
        measured ? fmt::format("{:.1e} / {:.0e}  {}", line.worst->relative_error, line.worst->tolerance, line.worst->case_name)
                 : "exact";
    text += fmt::format("{:<20} {:<18} {:>6} {:>6} {:>7} {:>11} {:>8}   {}\n", line.op,
                        line.implementation.empty() ? "-" : line.implementation, line.counts[ConformanceOutcome::kPassed],
                        line.counts[ConformanceOutcome::kFailed], line.counts[ConformanceOutcome::kRefused],
                        line.counts[ConformanceOutcome::kUnsupported], line.counts[ConformanceOutcome::kExpectedFailure],
                        line.counts[ConformanceOutcome::kPassed] + line.counts[ConformanceOutcome::kFailed] > 0 ? worst : "");
  }
  for (const ConformanceEntry& entry : entries) {
    if (entry.outcome != ConformanceOutcome::kFailed) continue;
    text += fmt::format("FAILED {} {} [{}] {}: {}\n", entry.op, entry.case_name, entry.implementation, entry.mode, entry.detail);
  }
  for (const ConformanceOutcome outcome :
       {ConformanceOutcome::kExpectedFailure, ConformanceOutcome::kUnsupported, ConformanceOutcome::kRefused}) {
    text += reasons_of(entries, outcome);
  }
  text += timing_table(timings);
  return text + std::string(kNotes) + (passed() ? "all held\n" : "NOT conformant\n");
}

std::string ConformanceReport::to_json() const {
  nlohmann::ordered_json json;
  json["backend"] = backend;
  json["device"] = device;
  json["instruction_set"] = instruction_set;
  json["passed"] = passed();
  for (const ConformanceOutcome outcome : kOutcomes) json["counts"][std::string(to_string(outcome))] = count(outcome);
  json["entries"] = nlohmann::ordered_json::array();
  for (const ConformanceEntry& entry : entries) {
    json["entries"].push_back({{"op", entry.op},
                               {"case", entry.case_name},
                               {"implementation", entry.implementation},
                               {"mode", entry.mode},
                               {"outcome", to_string(entry.outcome)},
                               {"detail", entry.detail},
                               {"relative_error", entry.relative_error},
                               {"tolerance", entry.tolerance}});
  }
  json["timings"] = nlohmann::ordered_json::array();
  for (const ConformanceTiming& timing : timings) {
    json["timings"].push_back({{"op", timing.op},
                               {"case", timing.case_name},
                               {"implementation", timing.implementation},
                               {"median_us", timing.median_us},
                               {"operand_bytes", timing.operand_bytes},
                               {"gb_per_s", timing.gb_per_s()}});
  }
  return json.dump(2) + "\n";
}

}  // namespace foretoken
