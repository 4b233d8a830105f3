// Whoever guesses the next tokens of sequences. The generation loop knows this interface only.
//
// Coordinates. t_0, t_1, ... are the committed tokens; h_k is the target's hidden state of token k. The drafter's row with pair
// key k is built from (embedding of t_{k+1}, h_k), sits at RoPE position k+1 and predicts t_{k+2}. Before a proposer can draft
// for a sequence whose newest token t_{n-1} is not yet in the target's cache, it is given the rows with the keys
// first_missing_key(state) .. n-2, by append_rows and propose.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "backends/stream.h"
#include "cache/block_table.h"
#include "cache/paged_kv_cache.h"
#include "core/ops/linear.h"
#include "core/tensor.h"

namespace foretoken {

/// What a proposer keeps of one sequence. Made by alloc_state, given back by destruction; only its own proposer reads it.
class ProposerState {
 public:
  ProposerState() = default;
  ProposerState(const ProposerState&) = delete;
  ProposerState& operator=(const ProposerState&) = delete;
  virtual ~ProposerState() = default;
};

/// Which of the target's hidden states a proposer is fed.
enum class HiddenKind : uint8_t { kPostNorm, kPreNorm };

/// One sequence of a propose: its rows from first_missing_key(state) on, and how many drafts it wants after them.
struct DraftPart {
  ProposerState* state = nullptr;
  std::span<const int32_t> next_token_ids;  // t_{k+1} of the rows, the newest token last; at least one
  int64_t first_hidden_row = 0;             // h_k of the rows: as many consecutive rows of `hidden`, from this one on
  int64_t num_drafts = 1;                   // 0: the rows only
  int32_t sampler_slot = -1;                // whose drafts may be drawn from the drafter's distribution; -1: best tokens
};

/// Rows taken out of a finished sequence, to be installed in another that starts with the same tokens.
struct DrafterKv {
  BlockTable blocks;
  int64_t num_rows = 0;
  int64_t num_keys = -1;  // first_missing_key of the sequence; -1: num_rows, since no key was left out

  [[nodiscard]] int64_t first_missing_key() const { return num_keys < 0 ? num_rows : num_keys; }
};

/// Calls work on the stream that they are given and wait for nothing unless said. Not thread-safe.
class DraftProposer {
 public:
  DraftProposer() = default;
  DraftProposer(const DraftProposer&) = delete;
  DraftProposer& operator=(const DraftProposer&) = delete;
  virtual ~DraftProposer() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual HiddenKind hidden_kind() const = 0;
  /// Most drafts that one propose gives a sequence.
  [[nodiscard]] virtual int64_t max_drafts() const = 0;
  /// Most sequences of one propose.
  [[nodiscard]] virtual int64_t max_parts() const = 0;
  /// Most rows that one propose takes in for a sequence; longer gaps go through append_rows first.
  [[nodiscard]] virtual int64_t max_part_rows() const = 0;
  /// Most rows of one append_rows.
  [[nodiscard]] virtual int64_t max_append_rows() const = 0;

  /// Empty state for a sequence of at most `budget_tokens` tokens. Throws OutOfMemory when the drafter's cache has no room for
  /// it.
  [[nodiscard]] virtual std::unique_ptr<ProposerState> alloc_state(int64_t budget_tokens) = 0;

  /// Appends a row for each of `next_token_ids` (host; [R]) with the hidden states [R, hidden_size] F32 or BF16: the prompt
  /// during prefill, and long stretches without drafts. Pair keys go on from first_missing_key.
  virtual void append_rows(Stream& stream, std::span<const int32_t> next_token_ids, const Tensor& hidden,
                           LinearPrecision precision, ProposerState& state) = 0;

  /// Takes the rows of all parts in, drafts for each, and returns the device tensor block_token_ids [at least max_parts,
  /// 1 + max_drafts] I32: row b is the newest token of part b and its drafts, unspecified after its num_drafts. `hidden` is
  /// [N, hidden_size] F32 or BF16, at the same few addresses in every call. A part's drafts, log-probabilities and cache rows
  /// have the same bits alone and in any company. The tensor is the same in every call; its values hold until the next one.
  /// Throws InvalidArgument outside the limits above, for a state given twice and for a foreign one; OutOfMemory when the cache
  /// is full. No state has changed then.
  [[nodiscard]] virtual Tensor propose(Stream& stream, std::span<const DraftPart> parts, const Tensor& hidden) = 0;
  /// What propose returns.
  [[nodiscard]] virtual const Tensor& block_token_ids() const = 0;
  /// Whether a propose may make fewer drafts than were asked for (num_drafted says how many). It then reads back what it has
  /// drafted after every pass, and the step that verifies can be staged only afterwards.
  [[nodiscard]] virtual bool may_stop_early() const { return false; }

  /// Log-probabilities of the drafts of the last propose, [max_drafts, parts] F32 on the device: row i holds those of draft i of
  /// every part. Absent unless measured, and where the device cannot.
  [[nodiscard]] virtual Tensor log_probabilities() const = 0;

  /// After the target accepted `num_accepted` of the last propose's drafts: drops the rows that no committed token backs, and
  /// those that will be built anew. The step left num_accepted + 1 new rows; returns how many of them, the first ones, are not
  /// wanted: first_missing_key is the key of the next. Throws InvalidArgument when that many were not drafted.
  virtual int64_t after_verify(int64_t num_accepted, ProposerState& state) = 0;

  /// Rows held, drafted ones included until after_verify.
  [[nodiscard]] virtual int64_t num_rows(const ProposerState& state) const = 0;
  /// Drafts that the last propose made for this sequence, until after_verify.
  [[nodiscard]] virtual int64_t num_drafted(const ProposerState& state) const = 0;
  /// Pair key of the newest row; nothing while there is none.
  [[nodiscard]] virtual std::optional<int64_t> last_pair_key(const ProposerState& state) const = 0;
  /// Pair key of the row that append_rows or propose takes next.
  [[nodiscard]] virtual int64_t first_missing_key(const ProposerState& state) const = 0;
  /// Leaves the missing rows with keys below `first_key` out, which is first_missing_key then: what is drafted attends to the
  /// rows before the gap and after it. Throws InvalidArgument for a key before first_missing_key, InvalidState between propose
  /// and after_verify.
  virtual void skip_to(int64_t first_key, ProposerState& state) = 0;

  /// The cache that the rows lie in.
  [[nodiscard]] virtual PagedKvCache& kv_cache() = 0;
  [[nodiscard]] virtual const PagedKvCache& kv_cache() const = 0;
  /// Blocks of the rows with the keys 0 .. first_missing_key - 1, where the row with key k sits in slot k and was built from the
  /// target's hidden state; none once a row was left out or kept otherwise.
  [[nodiscard]] virtual std::span<const int32_t> kv_blocks(const ProposerState& state) const = 0;

  /// Moves the rows out of a state, which is empty afterwards.
  [[nodiscard]] virtual DrafterKv take_kv(ProposerState& state) = 0;
  /// Moves the rows of `kv` with keys below `num_keys` into an empty state, whose first_missing_key is num_keys then. Throws
  /// InvalidState when it is not empty; `kv` is then untouched.
  virtual void install_kv(DrafterKv& kv, int64_t num_keys, ProposerState& state) = 0;
};

}  // namespace foretoken
