// Every command with its options and help, in one place. docs/cli.md is made from these tables.
#include <array>

#include "apps/foretoken/command.h"

namespace foretoken::cli {
namespace {

constexpr OptionSpec kModel{"model", "MODEL", "", "checkpoint folder or synth:NAME; without it, the bundled tiny-dense"};
constexpr OptionSpec kBackend{"backend", "B", "", "device: auto, cpu, cuda:0, ... (default: FORETOKEN_BACKEND, else auto)"};
constexpr OptionSpec kThreads{"threads", "N", "0", "threads of the CPU backend; 0: one per core that may be used"};
constexpr OptionSpec kPrefillPrecision{
    "prefill-precision", "P", "auto",
    "activations of the prompt's pass: auto, f32 or bf16; auto: bf16 where the device is faster with it"};
constexpr OptionSpec kActivations{"activations", "T", "auto",
                                  "inputs of linear layers: auto, f32 or bf16; auto: what the device is fastest with"};
constexpr OptionSpec kKvDtype{
    "kv-dtype", "T", "auto",
    "target's KV cache: auto, f32, bf16 or fp8 (E4M3 with a scale for K and one for V in each layer); auto: bf16"};
constexpr OptionSpec kDraftKvDtype{"draft-kv-dtype", "T", "auto",
                                   "drafter's KV cache: auto, f32, bf16 or fp8; auto: like the target's"};
constexpr OptionSpec kPrefillChunk{"prefill-chunk", "N", "512", "prompt tokens of one pass, 1 to 8192"};
constexpr OptionSpec kDraftHidden{"draft-hidden", "KIND", "post",
                                  "hidden state that the head is fed: post or pre the target's final norm"};
constexpr OptionSpec kDraftChain{"draft-chain", "KIND", "post",
                                 "what chained draft passes are fed: post or pre the head's final norm"};
constexpr OptionSpec kDraftRows{"draft-rows", "POLICY", "exact",
                                "cache rows of the head after a verify: exact, refeed-accepted or trim (which keeps rows that a "
                                "chain made). The text does not "
                                "depend on it"};
constexpr OptionSpec kDraftConfidenceStop{"draft-confidence-stop", "TAU", "",
                                          "end a chain of drafts with the first one that the head gives a probability below TAU, "
                                          "between 0 and 1; without it chains have "
                                          "their whole length. A round then waits for each draft pass"};
constexpr OptionSpec kDraftPrecision{
    "draft-precision", "P", "auto",
    "format of the draft head's linear layers: auto, bf16, fp8 or nvfp4 (fp4); auto: as the checkpoint stores them"};
constexpr OptionSpec kDraftFc{"draft-fc", "P", "auto", "format of the head's fc, which --draft-precision leaves alone"};
constexpr OptionSpec kDraftExperts{"draft-experts", "P", "auto",
                                   "format of the head's routed experts; auto: as --draft-precision says"};
constexpr OptionSpec kDraftLmHead{
    "draft-lm-head", "P", "auto",
    "LM head that drafts are picked with: auto, checkpoint, bf16, fp8 or nvfp4; auto: an FP8 copy where the device is faster "
    "with it. The target always uses the checkpoint's"};
constexpr OptionSpec kDraftVocab{
    "draft-vocab", "N|FILE", "",
    "tokens that drafts can be: the first N ids, or those of a file that draft-vocab wrote; their log-probabilities are over "
    "these. Without it, all tokens. The text does not depend on it, acceptance does"};
constexpr OptionSpec kJson{"json", "", "", "print one JSON object on stdout and nothing else"};

const CommandSpec kGenerate{
    "generate",
    "",
    "Generate text, with speculation where the checkpoint has a head",
    "Text streams to stdout as it comes, figures go to stderr. Exactly one of --prompt, --chat, --prompt-file and "
    "--token-ids is required. Ends at an end token of the checkpoint, before --stop, after --max-tokens, or where the context "
    "ends. Greedy unless a sampling option says otherwise: the text then does not depend on --speculative-tokens. A sampled text "
    "depends on --seed, and with drafts that are sampled too on their number; its distribution is always the target's.",
    {
        kModel,
        {"prompt", "TEXT", "", "continue this text; special tokens in it, like <|im_start|>, are parsed"},
        {"chat", "TEXT", "", "answer this message, formatted as ChatML; special tokens in it stay plain text"},
        {"prompt-file", "F", "", "like --prompt, from a file; - reads stdin"},
        {"token-ids", "1,2,3", "", "continue these token ids"},
        {"system", "TEXT", "", "system message for --chat"},
        {"max-tokens", "N", "128", "most tokens to generate"},
        {"speculative-tokens", "K", "3",
         "drafts of a round, 0 to 15; 0 decodes plainly; auto: as many, up to 7, as are worth their time on this device and "
         "text; "
         "a ladder like 4:3,16:1 gives drafts by the number of texts decoded at once. A checkpoint without a head decodes "
         "plainly, or fails when K was "
         "asked for"},
        {"stop", "TEXT", "", "end the text before this string; needs a tokenizer"},
        {"temperature", "T", "0", "0: the most likely token; else 0.001 to 100"},
        {"top-k", "N", "0", "sample from the N most likely tokens; 0: off"},
        {"top-p", "P", "1", "sample from the most likely tokens that together have this probability"},
        {"min-p", "P", "0", "leave out tokens less likely than this share of the most likely one's probability"},
        {"repetition-penalty", "R", "1", "divides (or, below 0, multiplies) logits of tokens in the prompt or text; 1: off"},
        {"presence-penalty", "A", "0", "taken off logits of tokens in the text"},
        {"frequency-penalty", "A", "0", "taken off logits of tokens in the text, as often as they are there"},
        {"logit-bias", "ID:B,...", "", "added to logits before anything else; -inf forbids a token"},
        {"min-tokens", "N", "0", "end tokens are forbidden before the text has that many tokens"},
        {"seed", "S", "0", "of random numbers"},
        {"draft-sampling", "KIND", "block",
         "drafts at a temperature above 0: block or rejection: drawn from the head's distribution and verified by block or "
         "rejection sampling; greedy: the head's best token, and the text is that of plain sampling with the same seed"},
        kBackend,
        kThreads,
        kPrefillPrecision,
        kActivations,
        kKvDtype,
        kDraftKvDtype,
        kPrefillChunk,
        kDraftHidden,
        kDraftChain,
        kDraftRows,
        kDraftConfidenceStop,
        kDraftPrecision,
        kDraftFc,
        kDraftExperts,
        kDraftLmHead,
        kDraftVocab,
        {"compare", "", "",
         "decode plainly too; report the speed-up (medians, when the text is short) and whether the ids are identical (exit "
         "status 3 when not)"},
        {"self-check", "", "",
         "compare the target's logits of every row with those of a sequence that never speculates, bit for bit (exit "
         "status 3 when they differ)"},
        kJson,
        {"quiet", "", "", "no notes and figures on stderr"},
    },
    {
        {"foretoken generate --chat 'What does \"eccentric\" mean?'", "Ask the bundled checkpoint"},
        {"foretoken generate --model DIR --prompt-file story.txt --max-tokens 256 --compare",
         "Continue a file and compare with plain decoding"},
        {"echo 'Once upon' | foretoken generate --model DIR --prompt-file - --speculative-tokens 4 --json",
         "From stdin, as JSON"},
        {"foretoken generate --model synth:qwen3.5-0.8b:layers=4 --token-ids 1,2,3 --max-tokens 16",
         "Random weights of a real shape"},
    },
    run_generate};

const CommandSpec kDevices{"devices",
                           "",
                           "List backends and devices, what each can do, and why not",
                           "Shows the built-in CPU backend and every loadable one that was found, their devices, and for "
                           "each weight format whether it can be stored, is fast, and is native. Every \"no\" has its "
                           "reason.",
                           {kJson},
                           {{"foretoken devices", "For people"}, {"foretoken devices --json", "For programs"}},
                           run_devices};

const CommandSpec kInspect{
    "inspect",
    "MODEL",
    "Describe a checkpoint without running it",
    "Family, shapes, tensors, precision per module, whether there is a draft head or why not, the memory needed, and the "
    "bytes that a target step and a draft step read.",
    {{"context", "N", "4096", "tokens that caches are sized for, as far as the model's context goes"},
     kKvDtype,
     kDraftKvDtype,
     {"tensors", "", "", "list every tensor too; --json always does"},
     kJson},
    {{"foretoken inspect DIR", "A checkpoint"}, {"foretoken inspect synth:qwen3.5-35b-a3b --json", "A real shape, as JSON"}},
    run_inspect};

const CommandSpec kSynth{
    "synth",
    "",
    "Write a random checkpoint with the shapes of a real model",
    "The files have the real layout, names and dtypes; the weights come from a counter-based generator, so a seed gives "
    "the same bytes everywhere. There is no tokenizer, and the head drafts at random. `synth:NAME` as a model makes the "
    "same weights without a file.",
    {
        {"like", "NAME", "", "the model whose shapes to take, for example qwen3.5-0.8b; a wrong name lists all"},
        {"layers", "N", "0", "decoder layers; 0: as many as the model has"},
        {"seed", "S", "1", "seed of the generator"},
        {"output", "DIR", "", "folder to write; must not exist or be empty"},
    },
    {{"foretoken synth --like qwen3.5-0.8b --output /data/random-0.8b", "All layers"},
     {"foretoken synth --like qwen3.5-35b-a3b --layers 4 --output /data/cut", "The first four"}},
    run_synth};

const CommandSpec kQuantize{
    "quantize",
    "",
    "Write a checkpoint in FP8 or NVFP4 from a plain one",
    "Quantises the linear layers of the parts in --scope on the device; norms, convolutions, small projections, routers, "
    "mtp.fc and embeddings stay as they are, and so do the tokenizer and other small files. Tensors are named as in official "
    "releases, routed experts one by one. With lm-head in the scope of a model that ties it to the embedding, a quantised copy "
    "becomes its LM head and config.json says so. On failure nothing is left behind.",
    {
        {"model", "DIR", "", "checkpoint folder with weights in F32 or BF16"},
        {"output", "DIR", "", "folder to write; must not exist or be empty"},
        {"format", "F", "", "fp8-block (a scale per 128x128), fp8-row (a scale per row) or nvfp4"},
        {"scope", "LIST", "target,mtp", "parts to quantise: target, mtp, lm-head"},
        {"scale-dtype", "T", "f32", "dtype of the scales of fp8-block: f32 or bf16"},
        kBackend,
        kThreads,
    },
    {{"foretoken quantize --model DIR --output DIR-FP8 --format fp8-block", "Like official FP8 releases"},
     {"foretoken quantize --model DIR --output DIR-NVFP4 --format nvfp4 --scope target,mtp,lm-head", "As small as it gets"}},
    run_quantize};

const CommandSpec kDraftVocabulary{
    "draft-vocab",
    "",
    "Choose the tokens that drafts can be, by what texts are made of",
    "Counts the tokens of texts of the kind that will be generated and writes those that are most frequent, for --draft-vocab. "
    "Where the texts have fewer, the lowest ids fill up. End tokens and all other special tokens come on top. The LM head of "
    "drafts then has that many rows, which is less to read; what is left out is never drafted.",
    {
        kModel,
        {"from", "LIST", "", "text files; - reads stdin"},
        {"size", "N", "32768", "how many tokens, special ones apart"},
        {"output", "FILE", "", "file to write"},
    },
    {{"foretoken draft-vocab --model DIR --from chats.txt,code.txt --output vocab.json", "32768 tokens"},
     {"foretoken generate --model DIR --draft-vocab vocab.json --prompt \"Once upon a time\"", "Draft with them"}},
    run_draft_vocab};

const CommandSpec kBenchDecode{
    "bench decode",
    "",
    "Measure prefill, plain and speculative decoding",
    "Medians over --repeat runs of a random prompt: prefill and plain speed, and for each number of drafts the speed, "
    "speed-up, tokens per round and where the time goes; bytes read per step and their share of the memory bandwidth, "
    "which the tool measures itself, with as many threads, or with abs_max over 2 GiB on other devices (more than 100 % for "
    "weights that fit into caches); host us is the time of a step, or of a round, in which no Program runs. End tokens are "
    "ignored. Exit status 3 when a text differs from the plain one.",
    {
        kModel,
        {"speculative-tokens", "LIST", "0,1,2,3", "numbers of drafts to measure, each 0 to 15; 0 is always measured"},
        {"prompt-tokens", "P", "128", "length of the prompt"},
        {"max-tokens", "N", "128", "tokens to generate, at least 2"},
        {"repeat", "R", "3", "runs of each kind, 1 to 1000"},
        {"force-accept", "PATTERN", "",
         "accept counts of successive rounds, like 3,0,1, repeated; for random heads, which accept nothing"},
        kBackend,
        kThreads,
        kPrefillPrecision,
        kActivations,
        kKvDtype,
        kDraftKvDtype,
        kPrefillChunk,
        kDraftHidden,
        kDraftChain,
        kDraftRows,
        kDraftConfidenceStop,
        kDraftPrecision,
        kDraftFc,
        kDraftExperts,
        kDraftLmHead,
        kDraftVocab,
        kJson,
        {"quiet", "", "", "no notes on stderr"},
    },
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
    {
        kModel,
        {"speculative-tokens", "LIST", "1,2,3,4", "numbers of drafts of a chain, each 1 to 15"},
        {"sequences", "LIST", "1", "numbers of sequences that draft together, each 1 to 64"},
        {"context", "N", "512", "tokens in the drafter's cache before a chain"},
        {"repeat", "R", "50", "chains of each kind, 1 to 10000"},
        kBackend,
        kThreads,
        kActivations,
        kDraftKvDtype,
        kDraftChain,
        kDraftPrecision,
        kDraftFc,
        kDraftExperts,
        kDraftLmHead,
        kDraftVocab,
        kJson,
        {"quiet", "", "", "no notes on stderr"},
    },
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
    {
        kModel,
        {"prompts", "F", "", "text file of messages, one per line, formatted as ChatML; - reads stdin (default: 16 questions)"},
        {"token-ids-file", "F", "", "prompts as a JSON list of lists of token ids instead"},
        {"max-tokens", "N", "64", "most tokens to generate after each prompt, at least 6"},
        {"draft-precision", "LIST", "auto,fp8,nvfp4", "formats of the head's linear layers: auto, bf16, fp8, nvfp4"},
        {"draft-lm-head", "LIST", "checkpoint,fp8,nvfp4", "LM heads of drafts: auto, checkpoint, bf16, fp8, nvfp4"},
        kDraftFc,
        kDraftExperts,
        kDraftVocab,
        kBackend,
        kThreads,
        kPrefillPrecision,
        kActivations,
        kKvDtype,
        kDraftKvDtype,
        kPrefillChunk,
        kDraftHidden,
        kDraftChain,
        kJson,
        {"quiet", "", "", "no notes on stderr"},
    },
    {{"foretoken bench acceptance", "The bundled checkpoint"},
     {"foretoken bench acceptance --model DIR --prompts questions.txt --draft-precision auto,nvfp4 --draft-lm-head fp8 --json",
      "Own prompts, as JSON"}},
    run_bench_acceptance};

const CommandSpec kBenchServe{
    "bench serve",
    "",
    "Measure many requests that arrive by the clock",
    "Requests arrive as a Poisson process, whatever the engine does, and are decoded together. Prints, for each rate and number "
    "of drafts, throughput, percentiles of time to first token and end to end (both from the scheduled arrival) and of "
    "inter-token latency (the wait for a round, in equal shares of its tokens), tokens per round, acceptance by position and "
    "where the time goes: draft and verify Programs, the host's part of rounds, and steps that read prompts. End tokens are "
    "ignored. The figures are those of the run of median throughput.",
    {
        kModel,
        {"rate", "LIST", "4", "requests per second, each above 0; inf: all at once"},
        {"requests", "N", "32", "requests of a run"},
        {"max-sequences", "B", "8", "requests decoded at once, 1 to 64; the others wait"},
        {"speculative-tokens", "LIST", "0,3",
         "drafts of a round, each of the list a number from 0 to 15, auto, or a ladder: drafts by number of sequences, like "
         "4:3,8:2,16:1"},
        {"prompt-tokens", "LO:HI", "32:128", "length of random prompts"},
        {"prompts", "F", "",
         "messages instead, one per line, or in a .jsonl file {\"prompt\": TEXT} per line, formatted as ChatML and taken in "
         "turn; "
         "- reads stdin"},
        {"token-ids-file", "F", "", "prompts as a JSON list of lists of token ids instead"},
        {"max-tokens", "LO:HI", "32:96", "tokens that a request generates"},
        {"seed", "S", "1", "decides arrivals, random prompts and numbers of tokens"},
        {"repeat", "R", "1", "runs of each kind, 1 to 1000"},
        {"force-accept", "PATTERN", "",
         "accept counts of successive rounds of a request, like 3,0,1, repeated; for random heads, which accept nothing"},
        {"check", "", "", "compare every text with that of its request alone, decoded plainly (exit status 3 when one differs)"},
        {"report", "FILE", "", "write the figures as one HTML page with plots"},
        kBackend,
        kThreads,
        kPrefillPrecision,
        kActivations,
        kKvDtype,
        kDraftKvDtype,
        kPrefillChunk,
        kDraftHidden,
        kDraftChain,
        kDraftRows,
        kDraftConfidenceStop,
        kDraftPrecision,
        kDraftFc,
        kDraftExperts,
        kDraftLmHead,
        kDraftVocab,
        kJson,
        {"quiet", "", "", "no notes on stderr"},
    },
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
    {
        {"op", "LIST", "linear,linear_argmax,linear_silu_mul,moe", "operators to measure"},
        {"format", "LIST", "", "of f32, bf16, fp8-row, fp8-block and nvfp4; without it, all that the device stores"},
        {"rows", "LIST", "1,4,8", "rows of a call, each 1 to 512"},
        {"shape", "LIST", "",
         "weights to measure, rows x columns, like 17408x5120; for moe, experts of that size (64, 8 per row). Without it, "
         "some of released models"},
        {"like", "NAME", "", "the weights of this model instead, for example qwen3.5-0.8b; a wrong name lists all"},
        {"implementation", "NAME", "", "this implementation only; without it, all that take the operands"},
        {"repeat", "R", "15", "passes over the weights, 1 to 1000"},
        kActivations,
        kBackend,
        kThreads,
        kJson,
    },
    {{"foretoken bench kernels --op linear --format bf16,nvfp4", "Two formats of a matrix"},
     {"foretoken bench kernels --like qwen3.5-35b-a3b --rows 1 --json", "The weights of a model, as JSON"}},
    run_bench_kernels};

const CommandSpec kConformance{"conformance",
                               "",
                               "Hold a backend's operators to the float64 reference",
                               "Runs every case of every operator through every implementation of the device, at once and "
                               "replayed with other inputs. Exit status 1 when one does not hold.",
                               {
                                   kBackend,
                                   kThreads,
                                   {"op", "X", "", "this operator only"},
                                   {"case", "TEXT", "", "cases whose name contains this"},
                                   {"implementation", "NAME", "", "this implementation only"},
                                   {"every", "N", "1", "run the first of each N cases, to save time"},
                                   {"seed", "N", "0", "other contents in every case"},
                                   {"timings", "", "", "time each case that passes, replayed many times in a row"},
                                   kJson,
                               },
                               {{"foretoken conformance --backend cpu", "All operators"},
                                {"foretoken conformance --op rms_norm --json", "One operator, as JSON"}},
                               run_conformance_command};

}  // namespace

std::span<const CommandSpec> commands() {
  static const std::array<CommandSpec, 12> all{kGenerate,        kDevices,         kInspect,      kSynth,
                                               kQuantize,        kDraftVocabulary, kBenchDecode,  kBenchDraft,
                                               kBenchAcceptance, kBenchServe,      kBenchKernels, kConformance};
  return all;
}

}  // namespace foretoken::cli
