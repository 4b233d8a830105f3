// Whoever guesses the next tokens of a sequence. The generation loop knows this interface only.
//
// Coordinates. t_0, t_1, ... are the committed tokens; h_k is the target's hidden state of token k. The drafter's row with pair
// key k is built from (embedding of t_{k+1}, h_k), sits at RoPE position k+1 and predicts t_{k+2}. A proposer that holds the keys
// 0 .. m-1 has m rows. Before it can draft for a sequence whose newest token t_{n-1} is not yet in the target's cache, it needs
// keys up to n-2.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "backends/stream.h"
#include "cache/block_table.h"
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

/// One call of propose, in device memory.
struct DraftRequest {
  Tensor next_token_ids;  // [R] I32: t_{k+1} of the R rows that the proposer lacks, the newest token last; R >= 1
  Tensor hidden;          // [R, hidden_size] F32 or BF16: h_k of those rows
  int64_t num_drafts = 1;
};

/// Rows taken out of a finished sequence, to be installed in another that starts with the same tokens.
struct DrafterKv {
  BlockTable blocks;
  int64_t num_rows = 0;
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
  /// Most drafts that one propose gives.
  [[nodiscard]] virtual int64_t max_drafts() const = 0;
  /// Most rows that one propose takes in; longer gaps go through append_rows first.
  [[nodiscard]] virtual int64_t max_request_rows() const = 0;
  /// Most rows of one append_rows.
  [[nodiscard]] virtual int64_t max_append_rows() const = 0;

  /// Empty state for a sequence of at most `budget_tokens` tokens. Throws OutOfMemory when the drafter's cache has no room for
  /// it.
  [[nodiscard]] virtual std::unique_ptr<ProposerState> alloc_state(int64_t budget_tokens) = 0;

  /// Appends a row for each of `next_token_ids` (host; [R]) with the hidden states [R, hidden_size] F32 or BF16: the prompt
  /// during prefill, and long stretches without drafts. Pair keys continue where the state's rows end.
  virtual void append_rows(Stream& stream, std::span<const int32_t> next_token_ids, const Tensor& hidden,
                           LinearPrecision precision, ProposerState& state) = 0;

  /// Takes the request's rows in, drafts, and returns the device tensor [1 + num_drafts] I32 of the newest token and its drafts;
  /// it keeps its address and holds until the next propose. Throws InvalidArgument outside the limits above and for a foreign
  /// state.
  [[nodiscard]] virtual Tensor propose(Stream& stream, const DraftRequest& request, ProposerState& state) = 0;

  /// Log-probability of each draft of the last propose, [num_drafts] F32 on the device; absent unless measured, and
  /// where the device cannot.
  [[nodiscard]] virtual Tensor log_probabilities() const = 0;

  /// After the target accepted `num_accepted` of the last propose's drafts: drops the rows that no committed token backs.
  /// Throws InvalidArgument when that many were not drafted.
  virtual void after_verify(int64_t num_accepted, ProposerState& state) = 0;

  /// Rows held, drafted ones included until after_verify.
  [[nodiscard]] virtual int64_t num_rows(const ProposerState& state) const = 0;
  /// Pair key of the newest row; nothing while there is none.
  [[nodiscard]] virtual std::optional<int64_t> last_pair_key(const ProposerState& state) const = 0;

  /// Moves the rows out of a state, which is empty afterwards.
  [[nodiscard]] virtual DrafterKv take_kv(ProposerState& state) = 0;
  /// Moves the first `num_rows` rows of `kv` into an empty state. Throws InvalidState when it is not empty; `kv` is then
  /// untouched.
  virtual void install_kv(DrafterKv& kv, int64_t num_rows, ProposerState& state) = 0;
};

}  // namespace foretoken
