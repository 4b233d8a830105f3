#include "apps/foretoken/draft_chain_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace foretoken::cli {
namespace {

using Json = nlohmann::ordered_json;

/// What follows from the median time of a chain.
struct Figures {
  Spread draft_us;  // a chain's time, shared out over its drafts
  double bytes_per_second = 0.0;
  double bandwidth_share = 0.0;
  double times_floor = 0.0;  // of the time that reading the bytes takes
};

Figures figures_of(const DraftChainReport& report, const DraftChain& chain) {
  const auto drafts = static_cast<double>(chain.num_drafts);
  const Spread& us = chain.device_us;
  const double bytes_per_second = static_cast<double>(chain.bytes) * 1e6 / us.median;
  return {.draft_us = {.p10 = us.p10 / drafts, .median = us.median / drafts, .p90 = us.p90 / drafts},
          .bytes_per_second = bytes_per_second,
          .bandwidth_share = bytes_per_second / report.read_bandwidth.bytes_per_second,
          .times_floor = report.read_bandwidth.bytes_per_second / bytes_per_second};
}

Json spread_json(const Spread& spread) { return {{"median", spread.median}, {"p10", spread.p10}, {"p90", spread.p90}}; }

Json chain_json(const DraftChainReport& report, const DraftChain& chain) {
  const Figures figures = figures_of(report, chain);
  return {{"sequences", chain.num_sequences},
          {"speculative_tokens", chain.num_drafts},
          {"chain_us", spread_json(chain.device_us)},
          {"draft_us", spread_json(figures.draft_us)},
          {"wall_us", spread_json(chain.wall_us)},
          {"host_us", chain.host_us ? spread_json(*chain.host_us) : Json(nullptr)},
          {"bytes_per_chain", chain.bytes},
          {"bytes_per_second", figures.bytes_per_second},
          {"bandwidth_share", figures.bandwidth_share},
          {"times_floor", figures.times_floor}};
}

}  // namespace

std::string to_json(const DraftChainReport& report) {
  Json chains = Json::array();
  for (const DraftChain& chain : report.chains) chains.push_back(chain_json(report, chain));
  const Json json{{"model", report.model},
                  {"backend", report.backend},
                  {"device", report.device},
                  {"threads", report.num_threads},
                  {"activations", report.activations},
                  {"draft_kv_dtype", report.draft_kv_dtype},
                  {"draft_precision", draft_json(report.draft)},
                  {"context_tokens", report.context_tokens},
                  {"repeat", report.repeat},
                  {"read_bandwidth_bytes_per_second", report.read_bandwidth.bytes_per_second},
                  {"read_bandwidth_method", report.read_bandwidth.method},
                  {"chains", chains}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string to_table(const DraftChainReport& report) {
  std::string out = fmt::format("{} on {} ({}), {} threads, activations {}, KV cache of the drafter {}\n", report.model,
                                report.device, report.backend, report.num_threads, report.activations, report.draft_kv_dtype);
  out += fmt::format("draft head: {}\n", stored_text(report.draft));
  out += fmt::format("{} tokens in the drafter's cache, medians of {} chains\n", report.context_tokens, report.repeat);
  out += fmt::format("measured read bandwidth {:.1f} GB/s ({})\n\n", report.read_bandwidth.bytes_per_second / 1e9,
                     report.read_bandwidth.method);
  out += fmt::format("{:>9} {:>6} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {:>7} {:>8} {:>10} {:>8}\n", "sequences", "drafts",
                     "chain us", "p10", "p90", "draft us", "MB/pass", "GB/s", "share", "x floor", "wall us", "host us");
  for (const DraftChain& chain : report.chains) {
    const Figures figures = figures_of(report, chain);
    out +=
        fmt::format("{:>9} {:>6} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.2f} {:>8.1f} {:>7} {:>8.2f} {:>10.1f} {:>8}\n",
                    chain.num_sequences, chain.num_drafts, chain.device_us.median, chain.device_us.p10, chain.device_us.p90,
                    figures.draft_us.median, static_cast<double>(chain.bytes) / 1e6 / static_cast<double>(chain.num_drafts),
                    figures.bytes_per_second / 1e9, fmt::format("{:.0f} %", 100.0 * figures.bandwidth_share), figures.times_floor,
                    chain.wall_us.median, chain.host_us ? fmt::format("{:.1f}", chain.host_us->median) : "-");
  }
  return out;
}

}  // namespace foretoken::cli
