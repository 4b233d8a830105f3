// Decode speed of fixed depths and of the depth policy `auto`, over texts of three kinds: with drafts that mostly hold
// ("repetitive"), the golden prompts ("ordinary"), and with drafts that mostly fail ("random").
//
//   bench_golden_decode [model=tiny-dense] [backend=cpu] [threads=2] [repeat=5] [tokens=256] [depths=0,1,2,3,5,7] [kinds=...]
//                       [policy=kept|new]
//
// `model` is a folder of tests/data, or synth:NAME. Synthetic heads draft at random, so accept counts are forced: those of the
// golden prompts with the most accepted drafts, of all golden prompts, and none. A repetition runs every depth and `auto` in
// turn, so that a machine that slows down does so for all; ratios are medians over repetitions. Each kind has a policy of its
// own, which knows of the device what was measured before the first text; with policy=new a policy for every repetition, which
// finds out about the texts anew.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "models/synth.h"
#include "speculative/cost_measurement.h"
#include "speculative/engine.h"
#include "tests/support/golden.h"

namespace {

using foretoken::Engine;
using foretoken::EngineOptions;
using foretoken::GenerationEngine;
using foretoken::GenerationOptions;
using foretoken::GenerationParts;
using foretoken::GenerationResult;

constexpr int64_t kAuto = -1;
constexpr int64_t kMostAutoDrafts = 7;
constexpr int kNumGoldenPrompts = 34;
constexpr int64_t kLongestPrompt = 3183;
constexpr int64_t kGoldenTokens = 64;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> items;
  std::istringstream stream(text);
  for (std::string item; std::getline(stream, item, ',');) items.push_back(item);
  return items;
}

std::map<std::string, std::string> read_arguments(int argc, char** argv) {
  std::map<std::string, std::string> values{{"model", "tiny-dense"},
                                            {"backend", "cpu"},
                                            {"threads", "2"},
                                            {"repeat", "5"},
                                            {"tokens", "256"},
                                            {"depths", "0,1,2,3,5,7"},
                                            {"data", FORETOKEN_TEST_DATA},
                                            {"policy", "kept"},
                                            {"kinds", "repetitive,ordinary,random"}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    const auto found = values.find(argument.substr(0, equals));
    if (equals == std::string::npos || found == values.end()) {
      throw foretoken::Error(foretoken::ErrorCode::kInvalidArgument, "unknown argument " + argument);
    }
    found->second = argument.substr(equals + 1);
  }
  return values;
}

struct Text {
  std::vector<int32_t> prompt;
  GenerationOptions options;
};

std::vector<int32_t> random_ids(uint64_t seed, size_t count, int64_t vocab_size) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> ids(count);
  std::ranges::generate(ids, [&] { return static_cast<int32_t>(random() % static_cast<uint64_t>(vocab_size)); });
  return ids;
}

/// Texts of a bundled checkpoint.
std::vector<Text> real_texts(const std::string& kind, const std::string& model, const Engine& engine, int64_t tokens) {
  std::vector<Text> texts;
  const foretoken::test::Golden golden(model + ".golden.safetensors");
  const auto prompt = [&golden](int i) { return golden.i32("prompt_" + std::to_string(i)); };
  if (kind == "ordinary") {
    for (int i = 0; i < kNumGoldenPrompts; ++i) {
      texts.push_back(
          {.prompt = prompt(i), .options = {.max_tokens = kGoldenTokens, .stop_token_ids = engine.config().eos_token_ids}});
    }
    return texts;
  }
  for (const int i : {25, 28, 31}) {
    std::vector<int32_t> ids;
    for (int repeat = 0; repeat < 12; ++repeat) {
      const std::vector<int32_t> phrase = prompt(i);
      ids.insert(ids.end(), phrase.begin(), phrase.end());
    }
    if (kind == "random") ids = random_ids(static_cast<uint64_t>(i), 64, engine.config().vocab_size);
    texts.push_back({.prompt = std::move(ids), .options = {.max_tokens = tokens}});
  }
  return texts;
}

/// Texts of random weights with the golden prompts' accept counts.
std::vector<Text> forced_texts(const std::string& kind, const std::string& data, Engine& engine, int64_t tokens) {
  std::ifstream file(data + "/golden/tiny-dense.json");
  const auto golden = nlohmann::json::parse(file);
  std::vector<int64_t> pattern;
  for (const auto& prompt : golden.at("prompts")) {
    const auto counts = prompt.at("accepted_per_round").at("5").get<std::vector<int64_t>>();
    const double mean = static_cast<double>(std::reduce(counts.begin(), counts.end())) / static_cast<double>(counts.size());
    if (kind == "ordinary" || (kind == "repetitive" && mean > 3.2)) pattern.insert(pattern.end(), counts.begin(), counts.end());
  }
  if (kind == "random") pattern = {0};
  const std::vector<int32_t> prompt = random_ids(1, 64, engine.config().vocab_size);
  const std::vector<int32_t> continuation =
      engine.generator().generate(prompt, {.max_tokens = tokens + 16, .num_speculative_tokens = 0}).output_token_ids;
  return {{.prompt = prompt,
           .options = {.max_tokens = tokens, .forced = {.pattern = std::move(pattern), .continuation = continuation}}}};
}

struct Run {
  double us_per_token = 0.0;
  double tokens_per_round = 0.0;
  double drafts_per_round = 0.0;
};

Run decode(GenerationEngine& generator, const std::vector<Text>& texts, int64_t depth) {
  double us = 0.0;
  double tokens = 0.0;
  double rounds = 0.0;
  double drafted = 0.0;
  for (const Text& text : texts) {
    GenerationOptions options = text.options;
    options.num_speculative_tokens = depth == kAuto ? kMostAutoDrafts : depth;
    if (depth == 0) options.forced = {};
    const GenerationResult result = generator.generate(text.prompt, options);
    const auto emitted = static_cast<double>(result.output_token_ids.size()) - 1.0;
    us += 1000.0 * result.timing.decode_ms;
    tokens += emitted;
    rounds += emitted - static_cast<double>(result.speculation.accepted());
    drafted += static_cast<double>(result.speculation.drafted);
  }
  return {.us_per_token = us / tokens, .tokens_per_round = tokens / rounds, .drafts_per_round = drafted / rounds};
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Median over the repetitions of `value(repetition)`.
template <class Value>
double median_of(size_t repetitions, const Value& value) {
  std::vector<double> values;
  for (size_t i = 0; i < repetitions; ++i) values.push_back(value(i));
  return median(std::move(values));
}

void print_kind(const std::string& kind, const std::vector<int64_t>& depths, const std::vector<std::vector<Run>>& runs) {
  const size_t repeat = runs.front().size();
  const auto speed = [&](size_t series) {
    return median_of(repeat, [&](size_t i) { return 1e6 / runs[series][i].us_per_token; });
  };
  size_t best = 0;
  for (size_t s = 0; s + 1 < runs.size(); ++s) best = speed(s) > speed(best) ? s : best;
  for (size_t s = 0; s < runs.size(); ++s) {
    const auto against = [&](size_t other) {
      return median_of(repeat, [&](size_t i) { return runs[other][i].us_per_token / runs[s][i].us_per_token; });
    };
    fmt::print("{:<11} {:>6} {:>10.1f} {:>8.3f}x {:>8.3f}x {:>10.2f} {:>10.2f}{}\n", kind,
               depths[s] == kAuto ? "auto" : std::to_string(depths[s]), speed(s), against(0), against(best),
               runs[s].front().tokens_per_round, runs[s].front().drafts_per_round, s == best ? "  best" : "");
  }
  std::fflush(stdout);
}

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

void bench(std::map<std::string, std::string>& arguments) {
  const std::string& model = arguments["model"];
  const bool is_synth = foretoken::is_synth_spec(model);
  const auto repeat = static_cast<size_t>(std::stoll(arguments["repeat"]));
  const int64_t tokens = std::stoll(arguments["tokens"]);
  std::vector<int64_t> depths;
  for (const std::string& depth : split(arguments["depths"])) depths.push_back(std::stoll(depth));
  depths.push_back(kAuto);

  EngineOptions options;
  options.model = is_synth ? model : arguments["data"] + "/" + model;
  options.backend = arguments["backend"];
  options.num_threads = std::stoi(arguments["threads"]);
  options.max_speculative_tokens = kMostAutoDrafts;
  Engine engine(options);
  const auto load_begin = std::chrono::steady_clock::now();
  engine.load(is_synth ? 64 : kLongestPrompt, tokens + 16);
  const double load_ms = milliseconds_since(load_begin);
  const GenerationParts parts{.backend = &engine.backend(),
                              .stream = &engine.stream(),
                              .runner = &engine.runner(),
                              .proposer = engine.proposer(),
                              .tokenizer = engine.tokenizer()};
  std::vector<double> measuring_ms;
  const auto auto_generator = [&] {
    const auto begin = std::chrono::steady_clock::now();
    auto policy = foretoken::make_depth_policy({.kind = foretoken::DepthPolicySpec::Kind::kAuto, .max_drafts = kMostAutoDrafts});
    foretoken::measure_round_costs(parts, 1, *policy);
    measuring_ms.push_back(milliseconds_since(begin));
    return std::make_unique<GenerationEngine>(parts, foretoken::GenerationEngineOptions{.depth_policy = std::move(policy)});
  };

  fmt::print("{:<11} {:>6} {:>10} {:>9} {:>9} {:>10} {:>10}\n", "kind", "depth", "tokens/s", "of plain", "of best", "tokens/rd",
             "drafts/rd");
  for (const std::string& kind : split(arguments["kinds"])) {
    const std::vector<Text> texts =
        is_synth ? forced_texts(kind, arguments["data"], engine, tokens) : real_texts(kind, model, engine, tokens);
    std::vector<std::vector<Run>> runs(depths.size());
    auto generator = auto_generator();
    for (size_t i = 0; i <= repeat; ++i) {
      for (size_t s = 0; s < depths.size(); ++s) {
        const bool is_auto = depths[s] == kAuto;
        const Run run = [&] {
          if (!is_auto) return decode(engine.generator(), texts, depths[s]);
          if (arguments["policy"] == "new") generator = auto_generator();
          return decode(*generator, texts, kAuto);
        }();
        if (i > 0) runs[s].push_back(run);  // the first repetition warms up
      }
    }
    print_kind(kind, depths, runs);
  }
  fmt::print("load {:.1f} ms, measuring of costs {:.1f} ms\n", load_ms, median(measuring_ms));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    auto arguments = read_arguments(argc, argv);
    bench(arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_golden_decode: {}\n", error.what());
    return 1;
  }
  return 0;
}
