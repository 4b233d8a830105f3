// Every command with its options and help; the benchmarks are in bench_tables.cpp. docs/cli.md is made from these tables.
#include "apps/foretoken/command.h"
#include "apps/foretoken/option_groups.h"

namespace foretoken::cli {
namespace {

const CommandSpec kGenerate{
    "generate",
    "",
    "Generate text, with speculation where the checkpoint has a head",
    "Text streams to stdout as it comes, figures go to stderr. Exactly one way to give prompts is required: --prompt, --chat, "
    "--prompt-file and --token-ids, each as often as there are prompts, or a file with many. Several are decoded together and "
    "their texts printed in their order, each after a line with its number; each is that of its prompt alone. Ends at an end "
    "token of the checkpoint, before --stop, after --max-tokens, or where the context "
    "ends. Greedy unless a sampling option says otherwise: the text then does not depend on --speculative-tokens. A sampled text "
    "depends on --seed, and with drafts that are sampled too on their number; its distribution is always the target's.",
    joined({
        {
            kModel,
            {"prompt", "TEXT", "", "continue this text; special tokens in it, like <|im_start|>, are parsed", "", true},
            {"chat", "TEXT", "", "answer this message, formatted as ChatML; special tokens in it stay plain text", "", true},
            {"prompt-file", "F", "", "like --prompt, from a file; - reads stdin", "", true},
            {"token-ids", "1,2,3", "", "continue these token ids", "", true},
            {"prompts", "F", "",
             "messages like those of --chat, one per line, or in a .jsonl file {\"prompt\": TEXT} per line; - reads stdin"},
            kTokenIdsFile,
            {"system", "TEXT", "", "system message for --chat and --prompts"},
            {"max-tokens", "N", "128", "most tokens to generate"},
            {"speculative-tokens", "K", "3",
             "drafts of a round, 0 to 15; 0 decodes plainly; auto: as many, up to 7, as are worth their time on this device and "
             "text; a ladder like 4:3,16:1 gives drafts by the number of texts decoded at once. A checkpoint without a head "
             "decodes plainly, or fails when K was asked for"},
            {"stop", "TEXT", "", "end the text before this string; needs a tokenizer"},
        },
        sampling_group(),
        {{"seed", "S", "0", "of random numbers"}},
        device_group(),
        target_group(),
        memory_group(),
        context_group(),
        {kDraftRows, kDraftConfidenceStop},
        head_format_group(),
        {
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
    }),
    {
        {"foretoken generate --chat 'What does \"eccentric\" mean?'", "Ask the bundled checkpoint"},
        {"foretoken generate --model DIR --prompt-file story.txt --max-tokens 256 --compare",
         "Continue a file and compare with plain decoding"},
        {"foretoken generate --model DIR --prompts questions.txt --max-sequences 16 --json", "Answer many questions, as JSON"},
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
    joined({{{"context", "N", "4096", "tokens that caches are sized for, as far as the model's context goes"}},
            kv_group(),
            {{"tensors", "", "", "list every tensor too; --json always does"}, kJson}}),
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
    joined({{
                {"model", "DIR", "", "checkpoint folder with weights in F32 or BF16"},
                {"output", "DIR", "", "folder to write; must not exist or be empty"},
                {"format", "F", "", "fp8-block (a scale per 128x128), fp8-row (a scale per row) or nvfp4",
                 "fp8-block fp8-row nvfp4"},
                {"scope", "LIST", "target,mtp", "parts to quantise: target, mtp, lm-head", "target mtp lm-head"},
                {"scale-dtype", "T", "f32", "dtype of the scales of fp8-block: f32 or bf16", "f32 bf16"},
            },
            device_group()}),
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
        {"from", "F,...", "", "text files; - reads stdin"},
        {"size", "N", "32768", "how many tokens, special ones apart"},
        {"output", "FILE", "", "file to write"},
    },
    {{"foretoken draft-vocab --model DIR --from chats.txt,code.txt --output vocab.json", "32768 tokens"},
     {"foretoken generate --model DIR --draft-vocab vocab.json --prompt \"Once upon a time\"", "Draft with them"}},
    run_draft_vocab};

const CommandSpec kConformance{"conformance",
                               "",
                               "Hold a backend's operators to the float64 reference",
                               "Runs every case of every operator through every implementation of the device, at once and "
                               "replayed with other inputs. Exit status 1 when one does not hold.",
                               joined({device_group(),
                                       {
                                           {"op", "X", "", "this operator only"},
                                           {"case", "TEXT", "", "cases whose name contains this"},
                                           {"implementation", "NAME", "", "this implementation only"},
                                           {"every", "N", "1", "run the first of each N cases, to save time"},
                                           {"seed", "N", "0", "other contents in every case"},
                                           {"timings", "", "", "time each case that passes, replayed many times in a row"},
                                           kJson,
                                       }}),
                               {{"foretoken conformance --backend cpu", "All operators"},
                                {"foretoken conformance --op rms_norm --json", "One operator, as JSON"}},
                               run_conformance_command};

}  // namespace

std::span<const CommandSpec> commands() {
  static const std::vector<CommandSpec> all = [] {
    std::vector<CommandSpec> list{kGenerate, kDevices, kInspect, kSynth, kQuantize, kDraftVocabulary};
    for (CommandSpec& bench : bench_commands()) list.push_back(std::move(bench));
    list.push_back(kConformance);
    return list;
  }();
  return all;
}

}  // namespace foretoken::cli
