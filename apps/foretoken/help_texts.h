// What the terminal's help, docs/cli.md and the man page have in common.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "apps/foretoken/command.h"
#include "apps/foretoken/exit_status.h"

namespace foretoken::cli {

inline constexpr std::string_view kIntroduction =
    "Foretoken generates text from a checkpoint with a multi-token-prediction head: the head drafts, the target verifies, and "
    "the text is exactly that of the target alone, in less time.";

inline constexpr std::string_view kOutputRule =
    "Output goes to stdout, everything else to stderr. With `--json`, stdout holds one JSON object and nothing else.";

inline constexpr std::string_view kModelArgument =
    "`MODEL` is the folder of a Hugging Face checkpoint, or `synth:NAME[:layers=N][:seed=S]`: random weights in the shapes of a\n"
    "real model, made in memory. Those have no tokenizer, so they take and give token ids only.";

inline constexpr std::array<std::pair<int, std::string_view>, 4> kExitStatuses{{
    {kExitOk, "all went well"},
    {kExitFailure, "an operation failed; stderr says `foretoken: <kind>: <message>`"},
    {kExitUsage, "the command line is wrong"},
    {kExitDifferent, "results that must be identical are not (--compare, --self-check, bench decode, bench serve --check)"},
}};

inline constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kEnvironment{{
    {"FORETOKEN_BACKEND", "the device when --backend is not given: auto, cpu, or a loaded module's name with an optional index"},
    {"FORETOKEN_BACKEND_PATH", "folders searched for loadable backends, separated by colons"},
    {"FORETOKEN_CPU_ISA", "hold the CPU backend to a lower instruction set: scalar, avx2, avx512 or avx512_vnni"},
    {"FORETOKEN_CUDA_BLOCK_SCALED",
     "1 multiplies NVFP4 weights by block-scaled tensor cores on sm_120 and sm_121: not yet proved"},
    {"FORETOKEN_CUDA_CUBLASLT", "0 keeps the CUDA backend from loading cuBLASLt: its own kernels then run prefill"},
    {"FORETOKEN_EAGER", "1 runs recorded programs launch by launch and names the one that fails"},
    {"FORETOKEN_LOG",
     "log level on stderr: trace, debug, info, warn, error or off; dispatch also tells how operators were chosen"},
    {"FORETOKEN_MODELS", "folder of the bundled checkpoints"},
    {"FORETOKEN_SYNC_KERNELS", "1 waits after every launch on a GPU and names the kernel that failed"},
}};

/// "--max-tokens N"
[[nodiscard]] std::string words_of(const OptionSpec& option);
/// Its help, with its default where it has one.
[[nodiscard]] std::string help_of(const OptionSpec& option);
/// "foretoken generate [options]"
[[nodiscard]] std::string usage_of(const CommandSpec& command);

}  // namespace foretoken::cli
