// The benchmarks with their options and help.
#include "apps/foretoken/command.h"
#include "apps/foretoken/option_groups.h"

namespace foretoken::cli {
namespace {

constexpr OptionSpec kServeRows{"draft-rows", "LIST", "exact",
                                "cache rows of the head after a verify, each of the list exact, refeed-accepted or trim (which "
                                "keeps rows that a chain made); "
                                "texts do not depend on it",
                                "exact refeed-accepted trim"};

const CommandSpec kBenchDecode{
    "bench decode",
    "",
    "Measure prefill, plain and speculative decoding",
    "Medians over --repeat runs of a random prompt: prefill and plain speed, and for each number of drafts the speed, "
    "speed-up, tokens per round and where the time goes; bytes read per step and their share of the memory bandwidth, "
    "which the tool measures itself: on the CPU with as many threads, before each run of all kinds in turn, of which the median "
    "counts, on other devices with abs_max over 2 GiB (more than 100 % for weights that fit into caches). host us is the time of "
    "a step, or of a round, in which no Program runs, verify x the time of a round's verify step over that of a plain step. End "
    "tokens are ignored. Exit status 3 when a text differs from the plain one.",
    joined({{
                kModel,
                {"speculative-tokens", "LIST", "0,1,2,3", "numbers of drafts to measure, each 0 to 15; 0 is always measured"},
                {"prompt-tokens", "P", "128", "length of the prompt"},
                {"max-tokens", "N", "128", "tokens to generate, at least 2"},
                {"repeat", "R", "3", "runs of each kind, 1 to 1000"},
                kForceAccept,
            },
            device_group(),
            target_group(),
            context_group(),
            {kDraftRows, kDraftConfidenceStop},
            head_format_group(),
            {kDraftVocab, kJson, kQuiet}}),
    {{"foretoken bench decode", "The bundled checkpoint"},
     {"foretoken bench decode --model synth:qwen3.5-0.8b --speculative-tokens 1,3 --max-tokens 64 --force-accept 3,0,1 --json",
      "A real shape with accept counts that a trained head might have"}},
    run_bench_decode};

const CommandSpec kBenchDraft{
    "bench draft",
    "",
    "Measure the draft chain alone",
    "Drafts again and again from the same place of random texts and prints, for each number of sequences and drafts, the time of "
    "the chain on the device (median, p10, p90; chains behind each other) and of one pass, the bytes that a pass must read "
    "(weights and "
    "scales once, of experts as many as rows pick at random, the caches), bytes per second, their share of the memory bandwidth, "
    "which the tool measures first as bench "
    "decode does, and how many times longer a draft takes than reading those bytes at that bandwidth (x floor). wall us is the "
    "time from the call to the ids on the host, on an idle device, and host us the time until the call returns: what the host "
    "needs to issue a round; on the CPU, where the host itself computes, there is none.",
    joined({{
                kModel,
                {"speculative-tokens", "LIST", "1,2,3,4", "numbers of drafts of a chain, each 1 to 15"},
                {"sequences", "LIST", "1", "numbers of sequences that draft together, each 1 to 64"},
                {"context", "N", "512", "tokens in the drafter's cache before a chain"},
                {"repeat", "R", "50", "chains of each kind, 1 to 10000"},
            },
            device_group(),
            {kActivations, kDraftKvDtype, kDraftChain},
            head_format_group(),
            {kDraftVocab, kJson, kQuiet}}),
    {{"foretoken bench draft", "The bundled checkpoint"},
     {"foretoken bench draft --model synth:qwen3.5-27b:layers=1 --speculative-tokens 1,3,7 --draft-precision nvfp4 --json",
      "The head of a real shape; the target's layers do not matter"}},
    run_bench_draft};

const CommandSpec kBenchAcceptance{
    "bench acceptance",
    "",
    "Measure what precision of the draft head costs in acceptance",
    "Decodes each prompt plainly and drafts 5 tokens at every token of the text that has 5 after it, with a head in each "
    "combination of the listed formats. Prints the share of those starts at which the first 1, 2, ... 5 drafts all equal the "
    "text, and how much lower it is than with the checkpoint's own formats, which come first. Lists that are not given leave "
    "out formats that the device cannot use.",
    joined({{
                kModel,
                {"prompts", "F", "",
                 "text file of messages, one per line, formatted as ChatML; - reads stdin (default: 16 questions)"},
                kTokenIdsFile,
                {"max-tokens", "N", "64", "most tokens to generate after each prompt, at least 6"},
                {"draft-precision", "LIST", "auto,fp8,nvfp4", "formats of the head's linear layers: auto, bf16, fp8, nvfp4",
                 "auto bf16 fp8 nvfp4"},
                {"draft-lm-head", "LIST", "checkpoint,fp8,nvfp4", "LM heads of drafts: auto, checkpoint, bf16, fp8, nvfp4",
                 "auto checkpoint bf16 fp8 nvfp4"},
                kDraftFc,
                kDraftExperts,
                kDraftVocab,
            },
            device_group(),
            target_group(),
            context_group(),
            {kJson, kQuiet}}),
    {{"foretoken bench acceptance", "The bundled checkpoint"},
     {"foretoken bench acceptance --model DIR --prompts questions.txt --draft-precision auto,nvfp4 --draft-lm-head fp8 --json",
      "Own prompts, as JSON"}},
    run_bench_acceptance};

const CommandSpec kBenchServe{
    "bench serve",
    "",
    "Measure many requests that arrive by the clock",
    "Requests arrive as a Poisson process, whatever the engine does, and are decoded together. Prints, for each row "
    "policy, number of drafts and rate, throughput, percentiles of time to first token and end to end (both from the scheduled "
    "arrival) and of "
    "inter-token latency (the wait for a round, in equal shares of its tokens), tokens per round, acceptance by position and "
    "where the time goes: draft and verify Programs, the host's part of rounds, and steps that read prompts. End tokens are "
    "ignored. The figures are those of the run of median throughput.",
    joined(
        {{
             kModel,
             {"rate", "LIST", "4", "requests per second, each above 0; inf: all at once"},
             {"requests", "N", "32", "requests of a run"},
             {"speculative-tokens", "LIST", "0,3",
              "drafts of a round, each of the list a number from 0 to 15, auto, or a ladder: drafts by number of sequences, like "
              "4:3,8:2,16:1"},
             {"prompt-tokens", "LO:HI", "32:128", "length of random prompts"},
             {"prompts", "F", "",
              "messages instead, one per line, or in a .jsonl file {\"prompt\": TEXT} per line, formatted as ChatML and taken in "
              "turn; "
              "- reads stdin"},
             kTokenIdsFile,
             {"max-tokens", "LO:HI", "32:96", "tokens that a request generates"},
             {"seed", "S", "1", "decides arrivals, random prompts and numbers of tokens, and with the prompt a sampled text"},
             {"repeat", "R", "1", "runs of each kind, 1 to 1000"},
             kForceAccept,
             {"check", "", "",
              "compare every text with that of its request alone, decoded plainly (exit status 3 when one differs)"},
             {"report", "FILE", "", "write the figures as one HTML page with plots"},
         },
         sampling_group(),
         device_group(),
         target_group(),
         memory_group(),
         context_group(),
         {kServeRows, kDraftConfidenceStop},
         head_format_group(),
         {kDraftVocab, kJson, kQuiet}}),
    {{"foretoken bench serve --report serve.html", "The bundled checkpoint"},
     {"foretoken bench serve --model DIR --prompts questions.txt --rate 2,8,inf --max-sequences 32 --speculative-tokens 0,auto "
      "--json",
      "Own prompts at three rates, as JSON"}},
    run_bench_serve};

const CommandSpec kBenchKernels{
    "bench kernels",
    "",
    "Measure the operators that read weights, in each weight format",
    "Random weights, as many copies as the caches cannot hold (on the CPU four times the last-level cache), and one recorded "
    "Program that walks through them. Prints, for each implementation that the device has for it (those that only prefill uses "
    "too, such as a vendor's library), the time of a call (median, p10, p90), the bytes per second of weights and "
    "scales, their share of the memory bandwidth, which the tool measures before each format (on the CPU with as many "
    "threads, elsewhere with abs_max over 2 GiB), and the rows per second relative to BF16 weights by the first of them. moe is "
    "both "
    "projections of the routed experts, over as many experts as the rows can hit.",
    joined(
        {{
             {"op", "LIST", "linear,linear_argmax,linear_silu_mul,moe", "operators to measure",
              "linear linear_argmax linear_silu_mul moe"},
             {"format", "LIST", "", "of f32, bf16, fp8-row, fp8-block and nvfp4; without it, all that the device stores",
              "f32 bf16 fp8-row fp8-block nvfp4"},
             {"rows", "LIST", "1,4,8", "rows of a call, each 1 to 512"},
             {"shape", "LIST", "",
              "weights to measure, rows x columns, like 17408x5120; for moe, experts of that size (64, 8 per row). Without it, "
              "some of released models"},
             {"like", "NAME", "", "the weights of this model instead, for example qwen3.5-0.8b; a wrong name lists all"},
             {"implementation", "NAME", "", "this implementation only; without it, all that take the operands"},
             {"repeat", "R", "15", "passes over the weights, 1 to 1000"},
             kActivations,
         },
         device_group(),
         {kJson}}),
    {{"foretoken bench kernels --op linear --format bf16,nvfp4", "Two formats of a matrix"},
     {"foretoken bench kernels --like qwen3.5-35b-a3b --rows 1 --json", "The weights of a model, as JSON"}},
    run_bench_kernels};

}  // namespace

std::vector<CommandSpec> bench_commands() { return {kBenchDecode, kBenchDraft, kBenchAcceptance, kBenchServe, kBenchKernels}; }

}  // namespace foretoken::cli
