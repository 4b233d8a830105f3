// `foretoken draft-vocab`.
#include "models/draft_vocab.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/foretoken/exit_status.h"
#include "apps/foretoken/options.h"
#include "apps/foretoken/output_file.h"
#include "apps/foretoken/prompt.h"
#include "core/error.h"
#include "models/tokenizer.h"
#include "speculative/engine.h"

namespace foretoken::cli {
namespace {

/// How often the texts have each token of the model.
std::vector<int64_t> count_tokens(const Tokenizer& tokenizer, int64_t vocab_size, const std::vector<std::string>& paths) {
  std::vector<int64_t> counts(static_cast<size_t>(vocab_size), 0);
  for (const std::string& path : paths) {
    for (const int32_t id : tokenizer.encode(read_text(path), SpecialTokens::kParse)) {
      if (id >= vocab_size) {
        throw Error(ErrorCode::kFormatError, {.what = "the tokenizer has a token that the model has not",
                                              .where = path,
                                              .expected = "ids below " + std::to_string(vocab_size),
                                              .got = std::to_string(id)});
      }
      ++counts[static_cast<size_t>(id)];
    }
  }
  return counts;
}

/// What ends a text, and the other tokens that no text of a file shows.
std::vector<int32_t> special_tokens(const Tokenizer& tokenizer, const ModelConfig& config) {
  std::vector<int32_t> ids = config.eos_token_ids;
  for (int32_t id = 0; id < std::min<int64_t>(tokenizer.vocab_size(), config.vocab_size); ++id) {
    if (tokenizer.is_special(id)) ids.push_back(id);
  }
  return ids;
}

}  // namespace

int run_draft_vocab(const Options& options) {
  const std::vector<std::string> paths = options.texts("from");
  const std::string output = options.required_text("output");
  const int64_t size = options.integer("size", 1, INT32_MAX);
  const ModelFiles files = open_model_files(options.text("model").value_or(""));
  const std::string tokenizer_hash = tokenizer_fingerprint(files.directory);
  if (tokenizer_hash.empty()) options.fail("option --model: " + files.name + " has no tokenizer");
  const Tokenizer tokenizer = Tokenizer::load(files.directory);

  const std::vector<int64_t> counts = count_tokens(tokenizer, files.config.vocab_size, paths);
  const DraftVocab vocab{.vocab_size = files.config.vocab_size,
                         .tokenizer = tokenizer_hash,
                         .token_ids = most_frequent_tokens(counts, size, special_tokens(tokenizer, files.config))};
  write_file(output, to_json(vocab));

  int64_t total = 0;
  int64_t covered = 0;
  for (const int64_t count : counts) total += count;
  for (const int32_t id : vocab.token_ids) covered += counts[static_cast<size_t>(id)];
  const double share = total == 0 ? 0.0 : 100.0 * static_cast<double>(covered) / static_cast<double>(total);
  fmt::print("{}: {} of {} tokens, which make {:.2f} % of the {} tokens of the texts\n", output, vocab.token_ids.size(),
             vocab.vocab_size, share, total);
  return kExitOk;
}

}  // namespace foretoken::cli
