// What `bench draft` found: figures of each length of chain, as a table for people and as JSON for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/foretoken/device_bandwidth.h"
#include "apps/foretoken/draft_report.h"
#include "apps/foretoken/spread.h"

namespace foretoken::cli {

/// Chains of one length, of as many sequences at once.
struct DraftChain {
  int64_t num_sequences = 1;
  int64_t num_drafts = 0;           // of each sequence
  uint64_t bytes = 0;               // that the drafts must read: weights and scales once a pass, and the caches
  Spread device_us{};               // of the whole chain, one behind the other
  Spread wall_us{};                 // from the call to the ids on the host, on an idle device
  std::optional<Spread> host_us{};  // until the call returns; nothing where the host itself computes
};

struct DraftChainReport {
  std::string model;
  std::string backend;
  std::string device;
  uint32_t num_threads = 0;
  std::string activations;
  std::string draft_kv_dtype;
  DraftReport draft;
  int64_t context_tokens = 0;  // in the drafter's cache before each chain
  int64_t repeat = 0;
  ReadBandwidth read_bandwidth;
  std::vector<DraftChain> chains;
};

[[nodiscard]] std::string to_json(const DraftChainReport& report);
[[nodiscard]] std::string to_table(const DraftChainReport& report);

}  // namespace foretoken::cli
