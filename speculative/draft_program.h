// What runs the passes of a draft batch in place of an MTP proposer's own Programs: for callers that bring kernels of theirs.
#pragma once

#include <string>
#include <vector>

#include "backends/stream.h"
#include "models/model_config.h"
#include "models/target_model.h"
#include "speculative/draft_metadata.h"

namespace foretoken {

/// A head and where its batches lie in device memory. All views keep their addresses and hold while the proposer lives.
struct DraftProgramBinding {
  ModelConfig config;  // sizes of the layer, rotary embedding, norms, experts
  MtpWeights weights;
  Tensor embed_tokens;  // [vocab_size, hidden_size]
  LinearWeight lm_head;
  Tensor token_map;  // [rows of the LM head] I32, the token of each; absent: row n is token n
  PagedKvView kv;    // [num_blocks, block_size, num_key_value_heads, head_dim], a view of the head's one layer
  DType activation_dtype = DType::kF32;
  ChainKind chain = ChainKind::kPostNorm;
  DraftLimits limits;
  const DraftMetadata* metadata = nullptr;  // of the batch that run() is called for: rows, positions, slots, block tables
  Tensor draft_token_ids;                   // [max_drafts, max_sequences] I32: pass i writes the drafts of its rows to row i
  Tensor logprobs;                          // [max_drafts, max_sequences] F32 likewise; absent unless measured
  /// Features in use that run() is not told of. While there is one, no program can be installed.
  std::vector<std::string> unmodelled;
};

/// Runs what DraftBucket and DraftMetadata describe: every row of the first pass enters the cache; the first num_sequences rows
/// of each pass attend and draft; pass i + 1 takes in the drafts of pass i and its hidden states, as MtpHead does. Drafts that a
/// sampler draws stay with the proposer. Not thread-safe.
class DraftProgram {
 public:
  DraftProgram() = default;
  DraftProgram(const DraftProgram&) = delete;
  DraftProgram& operator=(const DraftProgram&) = delete;
  virtual ~DraftProgram() = default;

  /// Whether it runs batches of this shape; the proposer's own Programs run the others.
  [[nodiscard]] virtual bool serves(const DraftBucket& bucket) const = 0;
  /// Puts all passes of the batch on `stream`; the metadata is there already. `hidden` is the propose's, which
  /// DraftMetadata::hidden_rows index. What it throws, propose throws, with no state changed.
  virtual void run(Stream& stream, const DraftBucket& bucket, const Tensor& hidden) = 0;
};

}  // namespace foretoken
