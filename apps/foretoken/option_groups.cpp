#include "apps/foretoken/option_groups.h"

namespace foretoken::cli {

OptionGroup joined(std::initializer_list<OptionGroup> groups) {
  OptionGroup all;
  for (const OptionGroup& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

OptionGroup device_group() {
  return {{"backend", "B", "", "device: auto, cpu, cuda:0, vulkan:PART OF ITS NAME, ... (default: FORETOKEN_BACKEND, else auto)",
           "auto cpu cuda hip vulkan"},
          {"threads", "N", "0", "threads of the CPU backend; 0: one per core that may be used"}};
}

OptionGroup kv_group() {
  return {{"kv-dtype", "T", "auto",
           "target's KV cache: auto, f32, bf16 or fp8 (E4M3 with a scale for K and one for V in each layer); auto: bf16",
           "auto f32 bf16 fp8"},
          kDraftKvDtype};
}

OptionGroup target_group() {
  return joined(
      {{{"prefill-precision", "P", "auto",
         "activations of the prompt's pass: auto, f32 or bf16; auto: bf16 where the device is faster with it", "auto f32 bf16"},
        kActivations},
       kv_group(),
       {{"prefill-chunk", "N", "512", "prompt tokens of one pass, 1 to 8192"}}});
}

OptionGroup context_group() {
  return {{"draft-hidden", "KIND", "post", "hidden state that the head is fed: post or pre the target's final norm", "post pre"},
          kDraftChain,
          {"draft-prompt-rows", "ON|OFF", "on",
           "off: the drafter's context begins with generated text. The text does not depend on it, acceptance does", "off on"}};
}

OptionGroup head_format_group() {
  return {{"draft-precision", "P", "auto",
           "format of the draft head's linear layers: auto, bf16, fp8 or nvfp4 (fp4); auto: as the checkpoint stores them",
           "auto bf16 fp8 nvfp4"},
          kDraftFc,
          kDraftExperts,
          {"draft-lm-head", "P", "auto",
           "LM head that drafts are picked with: auto, checkpoint, bf16, fp8 or nvfp4; auto: an FP8 copy where the device is "
           "faster with it. The target always uses the checkpoint's",
           "auto checkpoint bf16 fp8 nvfp4"}};
}

OptionGroup memory_group() {
  return {
      {"max-sequences", "B", "8", "texts decoded at once, 1 to 64; the others wait"},
      {"kv-cache-tokens", "N", "0", "room of the target's KV cache; 0: enough for as many of the longest texts"},
      {"overcommit", "", "",
       "texts start as soon as their prompt fits into the KV cache; where it runs short, the youngest are moved to the host "
       "and go on later. Without it, each starts with room for its whole length"},
      {"prefix-cache", "AUTO|ON|OFF", "auto",
       "keep what was computed of prompts and texts, for prompts that begin alike; auto: on where there are several prompts",
       "auto on off"},
      {"prefix-snapshots", "N", "8", "recurrent states that the prefix cache keeps, for models that have them"},
      {"prefix-spacing", "N", "2048", "prompt tokens from one kept state to the next, rounded up to whole chunks of prefill"},
      {"prefix-turns", "ON|OFF", "on",
       "off: the prefix cache keeps prompts only, not the texts that followed them, which a next turn would continue", "off on"},
      {"prefix-draft-rows", "ON|OFF", "on",
       "off: a cached prefix comes without the drafter's rows, whose context then begins after it", "off on"}};
}

OptionGroup sampling_group() {
  return {{"temperature", "T", "0", "0: the most likely token; else 0.001 to 100"},
          {"top-k", "N", "0", "sample from the N most likely tokens; 0: off"},
          {"top-p", "P", "1", "sample from the most likely tokens that together have this probability"},
          {"min-p", "P", "0", "leave out tokens less likely than this share of the most likely one's probability"},
          {"repetition-penalty", "R", "1", "divides (or, below 0, multiplies) logits of tokens in the prompt or text; 1: off"},
          {"presence-penalty", "A", "0", "taken off logits of tokens in the text"},
          {"frequency-penalty", "A", "0", "taken off logits of tokens in the text, as often as they are there"},
          {"logit-bias", "ID:B,...", "", "added to logits before anything else; -inf forbids a token"},
          {"min-tokens", "N", "0", "end tokens are forbidden before the text has that many tokens"},
          {"draft-sampling", "KIND", "block",
           "drafts at a temperature above 0: block or rejection: drawn from the head's distribution and verified by block or "
           "rejection sampling; greedy: the head's best token, and the text is that of plain sampling with the same seed",
           "block rejection greedy"}};
}

}  // namespace foretoken::cli
