// Decode speed over the golden prompts (real texts, real acceptance): one iteration decodes all of them at a fixed depth, or with
// the depth policy `auto` (argument kAuto).
// The time is GenerationTiming::decode_ms; items are generated tokens after the first of each text.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "speculative/engine.h"
#include "tests/support/golden.h"

namespace {

using foretoken::Engine;
using foretoken::EngineOptions;
using foretoken::GenerationResult;

constexpr int kNumPrompts = 34;
constexpr int64_t kLongestPrompt = 3183;
constexpr int64_t kMaxTokens = 64;
constexpr int64_t kAuto = 99;
constexpr int64_t kMostAutoDrafts = 5;

void decode_golden_prompts(benchmark::State& state, const std::string& model) {
  const bool is_auto = state.range(0) == kAuto;
  const int64_t depth = is_auto ? kMostAutoDrafts : state.range(0);
  EngineOptions options;
  if (is_auto) options.depth_policy = foretoken::parse_depth_policy("auto", kMostAutoDrafts);
  options.model = foretoken::test::data_path(model);
  options.num_threads = 2;
  options.max_speculative_tokens = depth;
  Engine engine(options);
  engine.load(kLongestPrompt, kMaxTokens);
  const foretoken::test::Golden golden(model + ".golden.safetensors");
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < kNumPrompts; ++i) prompts.push_back(golden.i32("prompt_" + std::to_string(i)));

  int64_t tokens = 0;
  int64_t accepted = 0;
  int64_t rounds = 0;
  double draft_ms = 0.0;
  double verify_ms = 0.0;
  for (auto _ : state) {
    double decode_ms = 0.0;
    for (const std::vector<int32_t>& prompt : prompts) {
      const GenerationResult result = engine.generator().generate(
          prompt, {.max_tokens = kMaxTokens, .num_speculative_tokens = depth, .stop_token_ids = engine.config().eos_token_ids});
      tokens += static_cast<int64_t>(result.output_token_ids.size()) - 1;
      accepted += result.speculation.accepted();
      rounds += result.speculation.rounds();
      decode_ms += result.timing.decode_ms;
      draft_ms += result.timing.draft_ms;
      verify_ms += result.timing.verify_ms;
    }
    state.SetIterationTime(decode_ms / 1000.0);
  }
  state.SetItemsProcessed(tokens);
  if (rounds > 0) state.counters["accepted/round"] = static_cast<double>(accepted) / static_cast<double>(rounds);
  if (rounds > 0) state.counters["draft_us/round"] = 1000.0 * draft_ms / static_cast<double>(rounds);
  state.counters["verify_us/round"] = 1000.0 * verify_ms / static_cast<double>(rounds > 0 ? rounds : tokens);
}

void tiny_dense(benchmark::State& state) { decode_golden_prompts(state, "tiny-dense"); }
void tiny_moe(benchmark::State& state) { decode_golden_prompts(state, "tiny-moe"); }

BENCHMARK(tiny_dense)->DenseRange(0, 5)->Arg(kAuto)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(tiny_moe)->DenseRange(0, 5)->Arg(kAuto)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
