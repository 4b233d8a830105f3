// What `bench serve` found: figures of each rate and depth policy, as a table for people, as JSON for programs and as a page.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/foretoken/engine_report.h"
#include "apps/foretoken/serve_figures.h"
#include "apps/foretoken/serve_load.h"

namespace foretoken::cli {

/// All runs of one kind.
struct ServeSeries {
  std::string draft_rows{};                        // "exact", "trim", ...; empty: there are no drafts
  std::string depth_policy{};                      // "3", "auto", "4:3,8:2"
  double rate = 0.0;                               // requests per second; infinity: all at once
  ServeFigures figures{};                          // of the run of median throughput
  std::vector<double> output_tokens_per_second{};  // of each run
  int64_t num_different = 0;                       // texts of any run that are not those of the request alone

  /// "auto, 4 requests/s"; "3, trim, 4 requests/s" where rows are not exact.
  [[nodiscard]] std::string name() const;
};

struct ServeReport {
  EngineReport engine;
  std::string command;  // that made it
  int64_t num_requests = 0;
  int64_t max_sequences = 0;
  int64_t prompt_tokens = 0;  // of all requests
  IntegerRange max_tokens;
  uint64_t seed = 0;
  std::vector<int64_t> forced_accepts;
  bool checked = false;  // texts were compared
  std::vector<ServeSeries> series;

  [[nodiscard]] bool identical() const;
};

[[nodiscard]] std::string to_json(const ServeReport& report);
[[nodiscard]] std::string to_table(const ServeReport& report);
/// One self-contained HTML page. `made_at`: when, for its foot.
[[nodiscard]] std::string to_html(const ServeReport& report, const std::string& made_at);

}  // namespace foretoken::cli
