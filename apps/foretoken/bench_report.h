// What `bench decode` found: figures of each kind of run, as a table for people and as JSON for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/foretoken/device_bandwidth.h"
#include "apps/foretoken/draft_report.h"
#include "speculative/generation.h"

namespace foretoken::cli {

/// All runs with one number of drafts; 0: plain.
struct BenchSeries {
  int64_t speculative_tokens = 0;
  std::vector<GenerationResult> runs;
  uint64_t bytes_per_step = 0;  // read and written by a plain step, or by a whole round (drafts and verify)
  bool identical = true;        // to the plain text
};

struct BenchReport {
  std::string model;
  std::string backend;
  std::string device;
  uint32_t num_threads = 0;
  std::string prefill_precision;
  std::string activations;
  std::string kv_dtype;
  std::string draft_kv_dtype;
  int64_t prompt_tokens = 0;
  int64_t max_tokens = 0;
  std::vector<int64_t> forced_accepts;
  std::optional<DraftReport> draft;  // nothing without a draft head
  ReadBandwidth read_bandwidth;
  std::vector<BenchSeries> series;  // the plain one first

  [[nodiscard]] bool identical() const;
};

[[nodiscard]] std::string to_json(const BenchReport& report);
[[nodiscard]] std::string to_table(const BenchReport& report);

}  // namespace foretoken::cli
