// What a command is: its words, its options, its help, and the function that runs it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foretoken::cli {

class Options;

/// One option. Every value is text until the command reads it, so defaults and given values pass the same checks.
struct OptionSpec {
  std::string_view name;           // "max-tokens"
  std::string_view argument;       // "N"; empty: a flag
  std::string_view default_value;  // empty: none
  std::string_view help;
  std::string_view values = {};  // words that it takes, separated by spaces; where others are good too, those that shells offer
  bool repeats = false;          // may be given several times
};

struct Example {
  std::string_view command;
  std::string_view purpose;
};

struct CommandSpec {
  std::string_view name;      // "bench decode"
  std::string_view argument;  // what stands without an option, "DIR|synth:SPEC"; empty: nothing may
  std::string_view summary;   // one line
  std::string_view description;
  std::vector<OptionSpec> options;
  std::vector<Example> examples;
  int (*run)(const Options& options);  // returns the exit status
};

/// All commands, in the order in which help lists them.
[[nodiscard]] std::span<const CommandSpec> commands();
/// Those of them that measure.
[[nodiscard]] std::vector<CommandSpec> bench_commands();

int run_generate(const Options& options);
int run_devices(const Options& options);
int run_inspect(const Options& options);
int run_synth(const Options& options);
int run_quantize(const Options& options);
int run_draft_vocab(const Options& options);
int run_bench_decode(const Options& options);
int run_bench_draft(const Options& options);
int run_bench_acceptance(const Options& options);
int run_bench_serve(const Options& options);
int run_bench_kernels(const Options& options);
int run_conformance_command(const Options& options);

}  // namespace foretoken::cli
