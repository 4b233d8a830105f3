// `foretoken bench kernels`.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "apps/foretoken/bandwidth.h"
#include "apps/foretoken/device_bandwidth.h"
#include "apps/foretoken/engine_setup.h"
#include "apps/foretoken/exit_status.h"
#include "apps/foretoken/kernel_bench.h"
#include "apps/foretoken/options.h"
#include "backends/registry.h"
#include "models/synth.h"

namespace foretoken::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxExtent = 1 << 20;
constexpr int64_t kMaxRows = 512;
constexpr int64_t kExperts = 64;  // of a shape that is not a model's
constexpr int64_t kExpertsPerTok = 8;
constexpr uint64_t kOtherDeviceBytes = uint64_t{512} << 20;  // beyond the caches of any GPU
constexpr size_t kOtherDeviceCalls = 8;                      // a replay costs microseconds there

struct BenchPlan {
  std::vector<KernelShape> shapes;
  std::vector<WeightFormat> formats;
  std::vector<int64_t> rows;
  KernelBenchOptions measuring;
};

/// One line of the report.
struct KernelResult {
  KernelShape shape;
  WeightFormat format = WeightFormat::kBF16;
  KernelTiming timing;
  ReadBandwidth bandwidth;                // measured just before: machines that are shared change
  std::optional<double> speed_of_bf16{};  // rows per second, the best implementation over BF16 weights: 1

  [[nodiscard]] double bytes_per_second() const { return static_cast<double>(timing.bytes) * 1e6 / timing.us.median; }
  [[nodiscard]] double bandwidth_share() const { return bytes_per_second() / bandwidth.bytes_per_second; }
  [[nodiscard]] double rows_per_second() const { return static_cast<double>(timing.rows) * 1e6 / timing.us.median; }
};

std::string_view name_of(KernelOp op) { return kKernelOpNames[static_cast<size_t>(op)]; }

/// Items of a comma-separated value.
std::vector<std::string> items(const std::string& value) {
  std::vector<std::string> list;
  for (size_t begin = 0; begin <= value.size();) {
    const size_t end = std::min(value.find(',', begin), value.size());
    list.push_back(value.substr(begin, end - begin));
    begin = end + 1;
  }
  return list;
}

/// Indices into `names` of the items of an option.
std::vector<size_t> name_list(const Options& options, std::string_view option, std::span<const std::string_view> names) {
  std::vector<size_t> list;
  for (const std::string& item : items(options.required_text(option))) {
    const auto found = std::ranges::find(names, item);
    if (found == names.end()) {
      options.fail(fmt::format("option --{}: expected a list of {}, got '{}'", option, fmt::join(names, ", "), item));
    }
    list.push_back(static_cast<size_t>(found - names.begin()));
  }
  return list;
}

/// "17408x5120". Nothing when it is not that, or too large.
std::optional<std::pair<int64_t, int64_t>> parse_shape(std::string_view text) {
  const auto extent = [](std::string_view digits) -> int64_t {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool whole = error == std::errc() && end == digits.data() + digits.size();
    return whole && value <= kMaxExtent ? value : 0;
  };
  const size_t cross = text.find('x');
  if (cross == std::string_view::npos) return std::nullopt;
  const std::pair shape{extent(text.substr(0, cross)), extent(text.substr(cross + 1))};
  return shape.first > 0 && shape.second > 0 ? std::optional(shape) : std::nullopt;
}

KernelShape expert_shape(int64_t intermediate_size, int64_t hidden_size, int64_t experts, int64_t per_tok) {
  return {.op = KernelOp::kMoe,
          .rows_out = intermediate_size,
          .columns = hidden_size,
          .num_experts = experts,
          .num_experts_per_tok = per_tok};
}

/// The weights of a released model, each shape once.
std::vector<KernelShape> shapes_of(const ModelConfig& config, KernelOp op) {
  const int64_t hidden = config.hidden_size;
  const int64_t attention = config.num_attention_heads * config.head_dim;
  const int64_t feed_forward = config.is_moe() ? config.shared_expert_intermediate_size : config.intermediate_size;
  switch (op) {
    case KernelOp::kLinear:
      return {{.op = op, .rows_out = 2 * attention, .columns = hidden},
              {.op = op, .rows_out = hidden, .columns = attention},
              {.op = op, .rows_out = config.conv_channels(), .columns = hidden},
              {.op = op, .rows_out = hidden, .columns = feed_forward}};
    case KernelOp::kLinearArgmax: return {{.op = op, .rows_out = config.vocab_size, .columns = hidden}};
    case KernelOp::kLinearSiluMul: return {{.op = op, .rows_out = feed_forward, .columns = hidden}};
    case KernelOp::kMoe:
      if (!config.is_moe()) return {};
      return {expert_shape(config.moe_intermediate_size, hidden, config.num_experts, config.num_experts_per_tok)};
  }
  return {};
}

std::vector<KernelShape> default_shapes(KernelOp op) {
  switch (op) {
    case KernelOp::kLinear:
    case KernelOp::kLinearSiluMul:
      return {{.op = op, .rows_out = 17408, .columns = 5120}, {.op = op, .rows_out = 3584, .columns = 1024}};
    case KernelOp::kLinearArgmax: return {{.op = op, .rows_out = 248320, .columns = 1024}};
    case KernelOp::kMoe: return {expert_shape(512, 2048, kExperts, kExpertsPerTok)};
  }
  return {};
}

std::vector<KernelShape> shapes_for(const Options& options) {
  if (options.has("shape") && options.has("like")) options.fail("--shape and --like exclude each other");
  std::optional<ModelConfig> config;
  if (options.has("like")) config = synth_config(parse_synth_spec(options.required_text("like")));
  std::vector<KernelShape> shapes;
  for (const size_t index : name_list(options, "op", kKernelOpNames)) {
    const auto op = static_cast<KernelOp>(index);
    if (!options.has("shape")) {
      const std::vector<KernelShape> found = config ? shapes_of(*config, op) : default_shapes(op);
      shapes.insert(shapes.end(), found.begin(), found.end());
      continue;
    }
    for (const std::string& item : items(options.required_text("shape"))) {
      const auto shape = parse_shape(item);
      if (!shape) {
        options.fail(
            fmt::format("option --shape: expected a list like 17408x5120, each extent 1 to {}, got '{}'", kMaxExtent, item));
      }
      shapes.push_back(op == KernelOp::kMoe ? expert_shape(shape->first, shape->second, kExperts, kExpertsPerTok)
                                            : KernelShape{.op = op, .rows_out = shape->first, .columns = shape->second});
    }
  }
  return shapes;
}

std::vector<WeightFormat> formats_for(const Options& options, const Capabilities& device) {
  std::vector<WeightFormat> known{WeightFormat::kBF16, WeightFormat::kF32, WeightFormat::kFp8Row, WeightFormat::kFp8Block,
                                  WeightFormat::kNvfp4};
  if (!options.has("format")) {
    std::erase_if(known, [&device](WeightFormat format) { return !device.weight_format(format).storable; });
    return known;
  }
  std::vector<std::string_view> names(known.size());
  std::ranges::transform(known, names.begin(), [](WeightFormat format) { return to_string(format); });
  std::vector<WeightFormat> formats;
  for (const size_t index : name_list(options, "format", names)) {
    device.require_storable(known[index], "what option --format asks for", "");
    formats.push_back(known[index]);
  }
  std::ranges::stable_sort(formats, {}, [](WeightFormat format) { return format != WeightFormat::kBF16; });  // others compare
  return formats;
}

void print_head(const Capabilities& device, const BenchPlan& plan) {
  fmt::print("{} ({}), {} threads, {}\n", device.device_name, device.backend, device.num_compute_units, device.instruction_set);
  fmt::print("medians of {} passes over at least {} MB of weights, {} activations; read: the bandwidth just before, GB/s\n\n",
             plan.measuring.samples, plan.measuring.min_bytes / 1000000, dtype_name(plan.measuring.activations));
  fmt::print("{:<16} {:<20} {:<10} {:<8} {:>4} {:>11} {:>11} {:>11} {:>8} {:>8} {:>7} {:>8}\n", "op", "shape", "format", "kernel",
             "rows", "us", "p10", "p90", "GB/s", "read", "share", "x bf16");
}

void print_line(const KernelResult& result) {
  const KernelTiming& timing = result.timing;
  fmt::print("{:<16} {:<20} {:<10} {:<8} {:>4} ", name_of(result.shape.op), result.shape.to_string(), to_string(result.format),
             timing.implementation.empty() ? "-" : timing.implementation, timing.rows);
  if (!timing.unavailable.empty()) {
    fmt::print("{}\n", timing.unavailable);
    return;
  }
  fmt::print("{:>11.1f} {:>11.1f} {:>11.1f} {:>8.1f} {:>8.1f} {:>7} {:>8}\n", timing.us.median, timing.us.p10, timing.us.p90,
             result.bytes_per_second() / 1e9, result.bandwidth.bytes_per_second / 1e9,
             fmt::format("{:.0f} %", 100.0 * result.bandwidth_share()),
             result.speed_of_bf16 ? fmt::format("{:.2f}", *result.speed_of_bf16) : "-");
}

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json to_json(const KernelResult& result) {
  const KernelTiming& timing = result.timing;
  Json json{{"op", name_of(result.shape.op)},
            {"shape", result.shape.to_string()},
            {"format", to_string(result.format)},
            {"rows", timing.rows}};
  if (!timing.unavailable.empty()) {
    json["unavailable"] = timing.unavailable;
    return json;
  }
  json.update({{"implementation", timing.implementation},
               {"rounds_activations", timing.rounds_activations},
               {"bytes", timing.bytes},
               {"median_us", timing.us.median},
               {"p10_us", timing.us.p10},
               {"p90_us", timing.us.p90},
               {"bytes_per_second", result.bytes_per_second()},
               {"read_bandwidth_bytes_per_second", result.bandwidth.bytes_per_second},
               {"read_bandwidth_method", result.bandwidth.method},
               {"bandwidth_share", result.bandwidth_share()},
               {"rows_per_second", result.rows_per_second()},
               {"speed_of_bf16", optional_json(result.speed_of_bf16)}});
  return json;
}

/// Calls `seen` with each result as it comes.
template <class Seen>
void measure(GpuBackend& backend, const BenchPlan& plan, const Seen& seen) {
  const auto stream = backend.create_stream();
  BandwidthMeter meter(backend);
  for (const KernelShape& shape : plan.shapes) {
    std::map<int64_t, double> bf16_us;  // by rows, of the best implementation
    for (const WeightFormat format : plan.formats) {
      const ReadBandwidth bandwidth = meter.measure();
      KernelBench bench(backend, *stream, shape, format, plan.measuring);
      for (const int64_t rows : plan.rows) {
        for (const KernelTiming& timing : bench.measure(rows)) {
          KernelResult result{.shape = shape, .format = format, .timing = timing, .bandwidth = bandwidth};
          if (timing.unavailable.empty()) {
            if (format == WeightFormat::kBF16) bf16_us.try_emplace(rows, timing.us.median);
            if (bf16_us.contains(rows)) result.speed_of_bf16 = bf16_us[rows] / timing.us.median;
          }
          seen(result);
        }
      }
    }
  }
}

}  // namespace

int run_bench_kernels(const Options& options) {
  BenchPlan plan{.shapes = shapes_for(options),
                 .formats = {},
                 .rows = options.integers("rows", 1, kMaxRows),
                 .measuring = {.samples = options.integer("repeat", 1, 1000),
                               .implementation = options.text("implementation").value_or("")}};
  if (plan.shapes.empty()) options.fail("nothing to measure: this model has no experts");
  const auto backend = BackendRegistry::instance().open(options.text("backend").value_or(""),
                                                        {.num_threads = static_cast<int>(options.integer("threads", 0, 1024))});
  const Capabilities& device = backend->capabilities();
  plan.formats = formats_for(options, device);
  plan.measuring.activations = device.activation_dtype(activations_option(options));
  const bool is_cpu = device.kind == DeviceKind::kCpu;
  plan.measuring.min_bytes = is_cpu ? 4 * last_level_cache_bytes() : kOtherDeviceBytes;
  if (!is_cpu) plan.measuring.min_calls = kOtherDeviceCalls;

  if (!options.flag("json")) {
    print_head(device, plan);
    measure(*backend, plan, print_line);
    return kExitOk;
  }
  Json results = Json::array();
  measure(*backend, plan, [&results](const KernelResult& result) { results.push_back(to_json(result)); });
  const Json json{{"backend", device.backend},
                  {"device", device.device_name},
                  {"instruction_set", device.instruction_set},
                  {"threads", device.num_compute_units},
                  {"repeat", plan.measuring.samples},
                  {"walked_bytes", plan.measuring.min_bytes},
                  {"activations", dtype_name(plan.measuring.activations)},
                  {"results", results}};
  fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
  return kExitOk;
}

}  // namespace foretoken::cli
