#include "backends/conformance/conformance.h"

#include <algorithm>

#include "backends/conformance/case_run.h"
#include "core/error.h"

namespace foretoken {
namespace {

/// Runs the cases of one operator after another and collects entries.
class Runner {
 public:
  Runner(GpuBackend& backend, const ConformanceOptions& options, ConformanceReport& report)
      : backend_(backend),
        options_(options),
        report_(report),
        expectations_(options.expectations ? *options.expectations : expectations_for(backend.capabilities())),
        stream_(backend.create_stream()) {}

  template <class Op>
  void run_op() {
    const std::vector<RunnableCase> cases = runnable_cases<Op>();
    for (size_t i = 0; i < cases.size(); i += std::max<size_t>(options_.every_nth_case, 1)) {
      if (cases[i].name.find(options_.case_contains) == std::string::npos) continue;
      try {
        run_case(cases[i]);
      } catch (const Error& error) {
        add(cases[i], {}, {}, ConformanceOutcome::kFailed, error.what());
      }
    }
  }

 private:
  void run_case(const RunnableCase& test_case) {
    const Expectation* unsupported = find_expectation(expectations_.unsupported, test_case.schema.name(), test_case.name);
    CaseRun run(backend_, *stream_, test_case, options_.seed);
    std::string refusals;
    bool selected = false;
    bool accepted = false;
    for (const OpImplementation& implementation : backend_.ops().find(test_case.schema.name())) {
      if (!options_.implementation.empty() && implementation.name != options_.implementation) continue;
      selected = true;
      const Availability available = run.accepts(implementation);
      if (!available) {
        refusals += (refusals.empty() ? "" : "; ") + implementation.name + ": " + available.reason();
        if (unsupported == nullptr) add(test_case, implementation.name, {}, ConformanceOutcome::kRefused, available.reason());
        continue;
      }
      accepted = true;
      if (unsupported != nullptr) {
        add(test_case, implementation.name, {}, ConformanceOutcome::kFailed,
            "accepts a case that is listed as unsupported (" + unsupported->reason + ")");
        continue;
      }
      judge(test_case, implementation, run);
    }
    if (accepted || (!options_.implementation.empty() && !selected)) return;
    if (unsupported != nullptr) {
      add(test_case, {}, {}, ConformanceOutcome::kUnsupported, unsupported->reason);
    } else if (options_.implementation.empty()) {
      add(test_case, {}, {}, ConformanceOutcome::kFailed,
          "no implementation takes it and it is not listed as unsupported" + (refusals.empty() ? "" : " (" + refusals + ")"));
    }
  }

  void judge(const RunnableCase& test_case, const OpImplementation& implementation, CaseRun& run) {
    const Expectation* failure = find_expectation(expectations_.expected_failure, test_case.schema.name(), test_case.name);
    const std::vector<ModeResult> results = run.run(implementation);
    const bool failed = std::ranges::any_of(results, [](const ModeResult& result) { return !result.comparison.failure.empty(); });
    for (const ModeResult& result : results) {
      const Comparison& comparison = result.comparison;
      ConformanceOutcome outcome = comparison.failure.empty() ? ConformanceOutcome::kPassed : ConformanceOutcome::kFailed;
      std::string detail = comparison.failure;
      if (failure != nullptr && failed && outcome == ConformanceOutcome::kFailed) {
        outcome = ConformanceOutcome::kExpectedFailure;
        detail = failure->reason + " (" + detail + ")";
      } else if (failure != nullptr && !failed) {
        outcome = ConformanceOutcome::kFailed;
        detail = "passes although it is listed as a failure: " + failure->reason;
      }
      add(test_case, implementation.name, result.mode, outcome, detail, comparison);
    }
    if (!options_.timings || failed) return;
    const CaseTiming timing = run.time(implementation);
    report_.timings.push_back({.op = test_case.schema.name(),
                               .case_name = test_case.name,
                               .implementation = implementation.name,
                               .median_us = timing.median_us,
                               .operand_bytes = timing.operand_bytes});
  }

  void add(const RunnableCase& test_case, const std::string& implementation, const std::string& mode, ConformanceOutcome outcome,
           const std::string& detail, const Comparison& comparison = {}) {
    report_.entries.push_back({.op = test_case.schema.name(),
                               .case_name = test_case.name,
                               .implementation = implementation,
                               .mode = mode,
                               .outcome = outcome,
                               .detail = detail,
                               .relative_error = comparison.relative_error,
                               .tolerance = comparison.tolerance});
    if (options_.seen) options_.seen(report_.entries.back());
  }

  GpuBackend& backend_;
  const ConformanceOptions& options_;
  ConformanceReport& report_;
  Expectations expectations_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace

std::vector<std::string> conformance_ops() {
  std::vector<std::string> names;
  for_each_op([&names](auto tag) { names.push_back(decltype(tag)::type::schema().name()); });
  return names;
}

ConformanceReport run_conformance(GpuBackend& backend, const ConformanceOptions& options) {
  const std::vector<std::string> names = conformance_ops();
  if (!options.op.empty() && std::ranges::find(names, options.op) == names.end()) {
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
    throw Error(ErrorCode::kInvalidArgument, {.what = "no such operator", .expected = "one of " + known, .got = options.op});
  }
  const Capabilities& device = backend.capabilities();
  ConformanceReport report{.backend = device.backend, .device = device.device_name, .instruction_set = device.instruction_set};
  Runner runner(backend, options, report);
  for_each_op([&](auto tag) {
    using Op = typename decltype(tag)::type;
    if (options.op.empty() || Op::schema().name() == options.op) runner.run_op<Op>();
  });
  return report;
}

}  // namespace foretoken
