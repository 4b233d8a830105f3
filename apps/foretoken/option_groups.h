// Options that several commands take, in named groups.
#pragma once

#include <initializer_list>
#include <vector>

#include "apps/foretoken/command.h"

namespace foretoken::cli {

using OptionGroup = std::vector<OptionSpec>;

/// One after the other.
[[nodiscard]] OptionGroup joined(std::initializer_list<OptionGroup> groups);

inline constexpr OptionSpec kModel{"model", "MODEL", "", "checkpoint folder or synth:NAME; without it, the bundled tiny-dense"};
inline constexpr OptionSpec kActivations{"activations", "T", "auto",
                                         "inputs of linear layers: auto, f32 or bf16; auto: what the device is fastest with",
                                         "auto f32 bf16"};
inline constexpr OptionSpec kDraftKvDtype{
    "draft-kv-dtype", "T", "auto", "drafter's KV cache: auto, f32, bf16 or fp8; auto: like the target's", "auto f32 bf16 fp8"};
inline constexpr OptionSpec kDraftChain{"draft-chain", "KIND", "post",
                                        "what chained draft passes are fed: post or pre the head's final norm", "post pre"};
inline constexpr OptionSpec kDraftRows{
    "draft-rows", "POLICY", "exact",
    "cache rows of the head after a verify: exact, refeed-accepted or trim (which keeps rows that a chain made). The text does "
    "not depend on it",
    "exact refeed-accepted trim"};
inline constexpr OptionSpec kDraftConfidenceStop{
    "draft-confidence-stop", "TAU", "",
    "end a chain of drafts with the first one that the head gives a probability below TAU, between 0 and 1; without it chains "
    "have their whole length. A round then waits for each draft pass"};
inline constexpr OptionSpec kForceAccept{
    "force-accept", "PATTERN", "",
    "accept counts of successive rounds of a text, like 3,0,1, repeated; for random heads, which accept nothing"};
inline constexpr OptionSpec kTokenIdsFile{"token-ids-file", "F", "", "prompts as a JSON list of lists of token ids"};
inline constexpr OptionSpec kJson{"json", "", "", "print one JSON object on stdout and nothing else"};
inline constexpr OptionSpec kQuiet{"quiet", "", "", "no notes on stderr"};

/// The device that runs it.
[[nodiscard]] OptionGroup device_group();
/// KV caches of target and drafter.
[[nodiscard]] OptionGroup kv_group();
/// How the target runs.
[[nodiscard]] OptionGroup target_group();
/// What the drafter is fed.
[[nodiscard]] OptionGroup context_group();
/// Formats of the draft head's linear layers.
[[nodiscard]] OptionGroup head_format_group();
/// Memory of many sequences, and what is kept in it for later ones.
[[nodiscard]] OptionGroup memory_group();
/// How tokens are picked, but for the seed.
[[nodiscard]] OptionGroup sampling_group();

inline constexpr OptionSpec kDraftFc{"draft-fc", "P", "auto", "format of the head's fc, which --draft-precision leaves alone",
                                     "auto bf16 fp8 nvfp4"};
inline constexpr OptionSpec kDraftExperts{
    "draft-experts", "P", "auto", "format of the head's routed experts; auto: as --draft-precision says", "auto bf16 fp8 nvfp4"};
inline constexpr OptionSpec kDraftVocab{
    "draft-vocab", "N|FILE", "",
    "tokens that drafts can be: the first N ids, or those of a file that draft-vocab wrote; their log-probabilities are over "
    "these. Without it, all tokens. The text does not depend on it, acceptance does"};

}  // namespace foretoken::cli
