// `foretoken conformance`.
#include "backends/conformance/conformance.h"

#include <fmt/format.h>

#include "apps/foretoken/exit_status.h"
#include "apps/foretoken/options.h"
#include "backends/registry.h"
#include "core/error.h"

namespace foretoken::cli {

int run_conformance_command(const Options& options) {
  ConformanceOptions wanted;
  wanted.op = options.text("op").value_or("");
  wanted.case_contains = options.text("case").value_or("");
  wanted.implementation = options.text("implementation").value_or("");
  wanted.every_nth_case = static_cast<size_t>(options.integer("every", 1, INT32_MAX));
  wanted.seed = static_cast<uint64_t>(options.integer("seed", 0, INT64_MAX));
  wanted.timings = options.flag("timings");
  const auto threads = static_cast<int>(options.integer("threads", 0, 1024));
  const std::unique_ptr<GpuBackend> backend =
      BackendRegistry::instance().open(options.text("backend").value_or(""), {.num_threads = threads});
  const ConformanceReport report = run_conformance(*backend, wanted);
  if (report.entries.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "no case of an operator fits --op, --case and --implementation together");
  }
  fmt::print("{}", options.flag("json") ? report.to_json() : report.to_table());
  return report.passed() ? kExitOk : kExitFailure;
}

}  // namespace foretoken::cli
