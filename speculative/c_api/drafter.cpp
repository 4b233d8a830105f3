#include "speculative/c_api/drafter.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "speculative/c_api/boundary.h"

namespace foretoken::c_api {
namespace {

/// Rows of one propose of this proposer.
int64_t max_propose_rows(const MtpProposer& proposer) { return proposer.max_parts() * proposer.max_part_rows(); }

size_t staged_bytes(int64_t num_rows, int64_t hidden_size, DType dtype) {
  return (dtype_bytes(dtype, static_cast<size_t>(num_rows * hidden_size)) + 255) / 256 * 256;
}

}  // namespace

DrafterObject::DrafterObject(DrafterSetup setup) : DeviceChild(setup.device), setup_(std::move(setup)) {
  stream().synchronize();  // lent weights are read on streams of the loader
  const uint64_t before = backend().allocated_bytes();
  parts_ = load_drafter_parts(backend(), stream(), *setup_.source, setup_.config,
                              {.precision = setup_.precision, .vocab = setup_.vocab, .progress = {}});
  const MtpProposerOptions& options = setup_.options;
  proposer_ = make_proposer(backend(), parts_.config, parts_.head, options, round_);
  if (options.measure_log_probabilities && proposer_->log_probabilities().is_absent()) {
    throw Error(ErrorCode::kUnsupported, "log-probabilities need a fused LM head: " + proposer_->head().fused_draft().reason());
  }
  round_.allocate(backend());
  const int64_t hidden_size = setup_.config.hidden_size;
  const int64_t rows = max_propose_rows(*proposer_);
  staging_ = backend().allocate(staged_bytes(options.max_append_rows, hidden_size, DType::kF32) +
                                staged_bytes(rows, hidden_size, DType::kF32) + staged_bytes(rows, hidden_size, DType::kBF16));
  stream().synchronize();
  total_bytes_ = backend().allocated_bytes() - before;
  for (const std::string& note : parts_.notes) notes_ += (notes_.empty() ? "" : "\n") + note;
}

foretoken_drafter_memory DrafterObject::memory() const {
  const uint64_t weights = parts_.weight_bytes();
  const uint64_t kv = proposer_->kv_cache().bytes();
  uint64_t lent = parts_.lent_bytes;
  if (const auto& shared = setup_.source->shared()) lent += shared->embed_tokens.bytes() + shared->lm_head.bytes();
  return {
      .struct_size = 0, .lent_bytes = lent, .weight_bytes = weights, .kv_bytes = kv, .other_bytes = total_bytes_ - weights - kv};
}

/// Hidden states of a propose: the same few addresses in every call, since Programs hold them.
Tensor DrafterObject::staged(DType dtype) const {
  const int64_t hidden_size = setup_.config.hidden_size;
  const int64_t rows = max_propose_rows(*proposer_);
  size_t offset = staged_bytes(proposer_->max_append_rows(), hidden_size, DType::kF32);
  if (dtype == DType::kBF16) offset += staged_bytes(rows, hidden_size, DType::kF32);
  return staging_.tensor(dtype, {rows, hidden_size}, offset);
}

void DrafterObject::check_token_ids(std::span<const int32_t> token_ids) const {
  for (const int32_t id : token_ids) require_range("next_token_ids", id, 0, setup_.config.vocab_size - 1);
}

/// Rows on the device are read where they are.
void DrafterObject::append(ProposerState& state, std::span<const int32_t> next_token_ids, const HiddenRows& hidden,
                           LinearPrecision precision) {
  const auto num_rows = static_cast<int64_t>(next_token_ids.size());
  const int64_t chunk = proposer_->max_append_rows();
  for (int64_t first = 0; first < num_rows; first += chunk) {
    const int64_t count = std::min(chunk, num_rows - first);
    Tensor rows;
    if (hidden.is_on_device()) {
      rows = hidden.on_device().rows(first, count);
    } else {
      rows = staging_.tensor(hidden.dtype(), {count, setup_.config.hidden_size});
      hidden.copy_to(stream(), first, count, rows, scratch_);
    }
    const auto ids = next_token_ids.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    proposer_->append_rows(stream(), ids, rows, precision, state);
  }
}

void DrafterObject::prefill(SequenceObject& sequence, std::span<const int32_t> next_token_ids, const HiddenRows& hidden) {
  sequence.require_verified();
  sequence.require_room(hidden.num_rows());
  check_token_ids(next_token_ids);
  append(*sequence.state, next_token_ids, hidden, setup_.prefill_precision);
  statistics_.prefill_rows += hidden.num_rows();
  finish_reading();
}

std::vector<DrafterObject::Part> DrafterObject::check(std::span<const foretoken_draft> drafts) const {
  std::vector<Part> parts;
  for (const foretoken_draft& draft : drafts) {
    auto sequence = find<SequenceObject>(draft.sequence);
    if (sequence->drafter.get() != this) fail_argument("sequence", "one of this drafter", "one of another");
    if (std::ranges::find(parts, sequence, &Part::sequence) != parts.end()) {
      fail_argument("drafts", "each sequence once", "one of them twice");
    }
    HiddenRows hidden(*device(), draft.hidden, setup_.config.hidden_size, "hidden");
    const std::span<const int32_t> ids(&require(draft.next_token_ids, "next_token_ids"), static_cast<size_t>(hidden.num_rows()));
    check_token_ids(ids);
    require_range("num_drafts", draft.num_drafts, 0, proposer_->max_drafts());
    if (draft.log_probabilities != nullptr && proposer_->log_probabilities().is_absent()) {
      fail_argument("log_probabilities", "null, or a drafter loaded with options.log_probabilities", "a pointer");
    }
    if (!parts.empty() && parts.front().hidden.dtype() != hidden.dtype()) {
      fail_argument("hidden.dtype", "the same for all sequences", to_string(hidden.dtype()));
    }
    sequence->require_verified();
    sequence->require_room(hidden.num_rows());
    parts.push_back({.sequence = std::move(sequence), .next_token_ids = ids, .hidden = std::move(hidden)});
  }
  return parts;
}

void DrafterObject::propose(std::span<foretoken_draft> drafts) {
  const auto begin = std::chrono::steady_clock::now();
  require_range("num_drafts", static_cast<int64_t>(drafts.size()), 1, proposer_->max_parts());
  const std::vector<Part> parts = check(drafts);
  const Tensor staging = staged(parts.front().hidden.dtype());
  std::vector<DraftPart> proposed;
  int64_t first_row = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    const int64_t early = std::max<int64_t>(part.hidden.num_rows() - proposer_->max_part_rows(), 0);
    const int64_t rows = part.hidden.num_rows() - early;
    if (early > 0) {
      append(*part.sequence->state, part.next_token_ids.first(static_cast<size_t>(early)), part.hidden, LinearPrecision::kExact);
    }
    part.hidden.copy_to(stream(), early, rows, staging.rows(first_row, rows), scratch_);
    proposed.push_back({.state = part.sequence->state.get(),
                        .next_token_ids = part.next_token_ids.subspan(static_cast<size_t>(early)),
                        .first_hidden_row = first_row,
                        .num_drafts = drafts[i].num_drafts});
    first_row += rows;
  }
  static_cast<void>(proposer_->propose(stream(), proposed, staging));
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t drafted = proposer_->num_drafted(*parts[i].sequence->state);
    drafts[i].num_drafted = static_cast<int32_t>(drafted);
    statistics_.rounds += drafted > 0 ? 1 : 0;
    statistics_.drafted += drafted;
  }
  read_back(drafts);
  statistics_.propose_ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

/// What the caller wants on the host.
void DrafterObject::read_back(std::span<const foretoken_draft> drafts) {
  const auto num_parts = static_cast<int64_t>(drafts.size());
  if (std::ranges::any_of(drafts, [](const foretoken_draft& draft) { return draft.draft_token_ids != nullptr; })) {
    const Tensor blocks = proposer_->block_token_ids().rows(0, num_parts);
    std::vector<int32_t> ids(static_cast<size_t>(blocks.shape().num_elements()));
    stream().download(blocks.view(), std::as_writable_bytes(std::span(ids)));
    for (size_t i = 0; i < drafts.size(); ++i) {
      const auto row = ids.begin() + static_cast<int64_t>(i) * blocks.dim(1) + 1;
      if (drafts[i].draft_token_ids != nullptr) std::copy_n(row, drafts[i].num_drafted, drafts[i].draft_token_ids);
    }
  }
  if (std::ranges::any_of(drafts, [](const foretoken_draft& draft) { return draft.log_probabilities != nullptr; })) {
    const Tensor measured = proposer_->log_probabilities();
    std::vector<float> values(static_cast<size_t>(measured.shape().num_elements()));
    stream().download(measured.view(), std::as_writable_bytes(std::span(values)));
    for (size_t i = 0; i < drafts.size(); ++i) {
      if (drafts[i].log_probabilities == nullptr) continue;
      for (int32_t j = 0; j < drafts[i].num_drafted; ++j) {
        drafts[i].log_probabilities[j] = values[static_cast<size_t>(j * measured.dim(1)) + i];
      }
    }
  }
  finish_reading();
}

/// On a stream of ours nothing else says when the caller's memory has been read.
void DrafterObject::finish_reading() {
  if (!device()->is_adopted()) stream().synchronize();
}

void DrafterObject::after_verify(SequenceObject& sequence, int32_t num_accepted) {
  const int64_t drafted = proposer_->num_drafted(*sequence.state);
  require_range("num_accepted", num_accepted, 0, drafted);
  static_cast<void>(proposer_->after_verify(num_accepted, *sequence.state));
  statistics_.accepted += num_accepted;
  for (int32_t j = 0; j < num_accepted; ++j) ++statistics_.accepted_by_position[j];
}

void DrafterObject::prepare(int64_t num_sequences, int64_t num_drafts, DType dtype) {
  for (int64_t drafts = 1; drafts <= num_drafts; ++drafts) {
    proposer_->prepare(staged(dtype), num_sequences, 1 + num_drafts, drafts, false);
  }
}

SequenceObject::SequenceObject(std::shared_ptr<DrafterObject> owner, int64_t token_budget)
    : DeviceChild(owner->device()),
      drafter(std::move(owner)),
      state(drafter->proposer().alloc_state(token_budget + drafter->proposer().max_drafts())),
      max_tokens(token_budget) {}

void SequenceObject::require_verified() const {
  if (drafter->proposer().num_drafted(*state) == 0) return;
  throw Error(ErrorCode::kInvalidState, "the sequence has drafts whose verdict foretoken_sequence_after_verify was not told");
}

void SequenceObject::require_room(int64_t num_rows) const {
  const int64_t room = max_tokens - next_key();
  if (num_rows <= room) return;
  fail_argument("rows", "at most " + std::to_string(room) + " more in a sequence of " + std::to_string(max_tokens) + " tokens",
                std::to_string(num_rows));
}

}  // namespace foretoken::c_api
