// An engine in C++ that drives a Qwen3.5 target itself and lets the library draft, through public headers only: the text with
// drafts must be the text without, for one sequence and for several at once. Arguments: the selector of a device, the folder of a
// checkpoint.
#include <foretoken/foretoken.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int64_t kMaxTokens = 512;
constexpr size_t kTextTokens = 96;
constexpr int32_t kDrafts = 4;

/// One text on its way: the target's sequence, and the drafter's where there are drafts.
struct Text {
  Text(const foretoken::Target& target, const foretoken::Drafter* drafter) : sequence(target.sequence(kMaxTokens)) {
    if (drafter != nullptr) drafts.push_back(drafter->sequence(kMaxTokens));
  }

  foretoken::TargetSequence sequence;
  std::deque<foretoken::Sequence> drafts;  // none or one
  std::vector<int32_t> tokens;             // after the prompt
  std::vector<int32_t> new_tokens;         // of the last step, which the drafter has not seen
  foretoken_rows hidden{};                 // of the rows before them
};

/// Reads the prompt; the drafter takes its rows in chunk by chunk. Row k needs token k + 1, so the last row waits for the first
/// pick.
void prefill(Text& text, const std::vector<int32_t>& prompt) {
  const std::span<const int32_t> ids(prompt);
  for (size_t done = 0; done < ids.size();) {
    const foretoken_rows hidden = text.sequence.prefill(ids.subspan(done));
    const auto taken = static_cast<size_t>(hidden.num_rows);
    const size_t known = std::min(taken, ids.size() - 1 - done);
    if (!text.drafts.empty() && known > 0) text.drafts.front().prefill(ids.subspan(done + 1, known), hidden);
    done += taken;
  }
  const foretoken::FirstToken first = text.sequence.finish_prefill();
  text.tokens = text.new_tokens = {first.token_id};
  text.hidden = first.hidden;
}

/// One round of one text. Returns how many drafts were accepted.
int32_t decode(const foretoken::Target& target, Text& text) {
  std::vector<int32_t> rows{text.tokens.back()};
  if (!text.drafts.empty()) {
    const auto drafts = text.drafts.front().propose(text.new_tokens, text.hidden, kDrafts);
    rows.insert(rows.end(), drafts.begin(), drafts.end());
  }
  const foretoken::TargetStep step = target.step(text.sequence, rows);
  if (!text.drafts.empty()) text.drafts.front().after_verify(step.num_accepted);
  text.new_tokens.assign(step.new_tokens().begin(), step.new_tokens().end());
  text.hidden = step.hidden;
  text.tokens.insert(text.tokens.end(), text.new_tokens.begin(), text.new_tokens.end());
  return step.num_accepted;
}

std::vector<int32_t> generate(const foretoken::Target& target, const foretoken::Drafter* drafter,
                              const std::vector<int32_t>& prompt, int32_t& accepted) {
  Text text(target, drafter);
  prefill(text, prompt);
  while (text.tokens.size() < kTextTokens) accepted += decode(target, text);
  text.tokens.resize(kTextTokens);
  return text.tokens;
}

/// All texts in the same rounds: one propose and one step for all of them.
std::vector<std::vector<int32_t>> generate_together(const foretoken::Device& device, const foretoken::Target& target,
                                                    const foretoken::Drafter& drafter,
                                                    const std::vector<std::vector<int32_t>>& prompts) {
  const int64_t hidden_size = target.info().hidden_size;
  std::deque<Text> texts;
  // A target's hidden states are gone after its next call, so what the first propose needs is kept.
  std::deque<foretoken::Buffer> kept;
  for (const std::vector<int32_t>& prompt : prompts) {
    Text& text = texts.emplace_back(target, &drafter);
    prefill(text, prompt);
    const size_t row_bytes = static_cast<size_t>(hidden_size) * (text.hidden.dtype == FORETOKEN_F32 ? 4 : 2);
    std::vector<std::byte> row(row_bytes);
    foretoken::detail::check(foretoken_buffer_download(text.hidden.buffer, text.hidden.offset, row.data(), row.size()));
    kept.emplace_back(device, row_bytes).upload(std::span<const std::byte>(row));
    text.hidden = foretoken::device_rows(kept.back(), 0, 1, text.hidden.dtype);
  }
  std::vector<std::vector<int32_t>> rows(texts.size(), std::vector<int32_t>(1 + kDrafts));
  std::vector<std::vector<int32_t>> picks = rows;
  while (std::ranges::any_of(texts, [](const Text& text) { return text.tokens.size() < kTextTokens; })) {
    std::vector<foretoken_draft> drafts;
    std::vector<foretoken_step> steps;
    for (size_t i = 0; i < texts.size(); ++i) {
      Text& text = texts[i];
      rows[i][0] = text.tokens.back();
      foretoken_rows hidden = text.hidden;
      hidden.num_rows = static_cast<int64_t>(text.new_tokens.size());
      drafts.push_back({text.drafts.front().get(), text.new_tokens.data(), hidden, kDrafts, rows[i].data() + 1, nullptr, 0});
      steps.push_back({text.sequence.get(), rows[i].data(), 1 + kDrafts, picks[i].data(), 0, {}});
    }
    drafter.propose(drafts);
    target.step(steps);
    for (size_t i = 0; i < texts.size(); ++i) {
      Text& text = texts[i];
      text.drafts.front().after_verify(steps[i].num_accepted);
      text.new_tokens.assign(picks[i].begin(), picks[i].begin() + steps[i].num_accepted + 1);
      text.hidden = steps[i].hidden;
      text.tokens.insert(text.tokens.end(), text.new_tokens.begin(), text.new_tokens.end());
    }
  }
  std::vector<std::vector<int32_t>> tokens;
  for (Text& text : texts) {
    text.tokens.resize(kTextTokens);
    tokens.push_back(std::move(text.tokens));
  }
  return tokens;
}

void run(const std::string& selector, const std::string& model) {
  const foretoken::Device device(selector);
  const std::vector<std::vector<int32_t>> prompts{
      {1, 17, 300, 42, 9, 256, 77, 5}, {2, 4, 8, 16, 32, 64, 128, 256, 512}, {100, 101}};
  auto target_options = foretoken::defaults<foretoken_target_options>();
  target_options.max_sequences = static_cast<int32_t>(prompts.size());
  target_options.max_seq_len = kMaxTokens;
  target_options.prefill_chunk = 4;
  const foretoken::Target target(device, model, target_options);
  auto drafter_options = foretoken::defaults<foretoken_drafter_options>();
  drafter_options.max_sequences = target_options.max_sequences;
  drafter_options.max_seq_len = kMaxTokens;
  drafter_options.max_drafts = kDrafts;
  const foretoken::Drafter drafter(device, target.drafter_source(), drafter_options);

  int32_t accepted = 0;
  std::vector<std::vector<int32_t>> plain;
  for (const std::vector<int32_t>& prompt : prompts) {
    int32_t none = 0;
    plain.push_back(generate(target, nullptr, prompt, none));
    if (generate(target, &drafter, prompt, accepted) != plain.back()) throw std::runtime_error("drafts changed a text");
  }
  if (generate_together(device, target, drafter, prompts) != plain) throw std::runtime_error("company changed a text");
  const auto drafted = drafter.statistics();
  if (accepted == 0 || drafted.accepted < accepted) throw std::runtime_error("no draft was accepted");
  std::printf("qwen engine on %s: %zu texts exact, %lld of %lld drafts accepted\n", device.info().name, prompts.size(),
              static_cast<long long>(drafted.accepted), static_cast<long long>(drafted.drafted));

  // The same text by the engine of the library.
  auto engine_options = foretoken::defaults<foretoken_engine_options>();
  engine_options.model = model.empty() ? nullptr : model.c_str();
  engine_options.max_prompt_tokens = 64;
  engine_options.max_tokens = kTextTokens;
  engine_options.prefill_chunk = 4;
  const foretoken::Engine engine(device, engine_options);
  auto request = foretoken::defaults<foretoken_request>();
  request.max_tokens = kTextTokens;
  const int32_t never = static_cast<int32_t>(engine.info().vocab_size - 1);
  request.stop_token_ids = &never;  // not the model's own: the loops above stop nowhere
  request.num_stop_token_ids = 1;
  std::string streamed;
  const foretoken::Result result = engine.generate(prompts[0], request, [&](std::string_view text) {
    streamed += text;
    return true;
  });
  if (!std::ranges::equal(result.token_ids(), plain[0])) throw std::runtime_error("the engine's text is another");
  if (streamed != result.text()) throw std::runtime_error("the streamed text is another");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "cpu", argc > 2 ? argv[2] : "");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
