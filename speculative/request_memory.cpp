#include "speculative/request_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"

namespace foretoken {
namespace {

using Phase = GenerationRequest::Phase;

/// A request that comes back may stay for this many tokens of all that run before caches run short again.
constexpr int64_t kGrowthTokens = 32;

int64_t blocks_for(int64_t rows, int64_t block_size) { return (rows + block_size - 1) / block_size; }

}  // namespace

RequestMemory::RequestMemory(const GenerationParts& parts, DrafterRows* rows, PrefixCache* prefixes, bool overcommit)
    : parts_(parts), rows_(rows), prefixes_(prefixes), overcommit_(overcommit) {}

int64_t RequestMemory::budget(const GenerationRequest& request) const {
  const int64_t whole = request.budget_tokens(parts_.runner->options().max_verify_rows);
  if (!overcommit_) return whole;
  return std::min(whole, request.num_tokens() + parts_.runner->options().max_verify_rows);
}

bool RequestMemory::uses_drafter(const GenerationRequest& request) const {
  return request.speculates() && parts_.proposer != nullptr;
}

void RequestMemory::check_fits(const GenerationRequest& request) const {
  const PagedKvCacheConfig& cache = parts_.runner->kv_cache().config();
  const int64_t room = static_cast<int64_t>(cache.num_blocks) * cache.block_size;
  const int64_t needed = request.budget_tokens(parts_.runner->options().max_verify_rows);
  if (needed <= room) return;
  throw Error(ErrorCode::kOutOfMemory, {.what = "the request never fits into the KV cache",
                                        .expected = "prompt, text and drafts of at most " + std::to_string(room) + " tokens",
                                        .got = std::to_string(needed)});
}

/// Whether cached prefixes come with drafter rows.
bool RequestMemory::keeps_draft_rows() const {
  return prefixes_ != nullptr && prefixes_->options().draft_rows && rows_ != nullptr && rows_->takes_prompts();
}

/// Cached prefixes make way for requests.
bool RequestMemory::make_blocks(int64_t num_blocks, int64_t num_draft_blocks) {
  if (prefixes_ != nullptr) return prefixes_->make_room(num_blocks, num_draft_blocks);
  if (parts_.runner->kv_cache().pool().num_free() < num_blocks) return false;
  return num_draft_blocks == 0 || parts_.proposer->kv_cache().pool().num_free() >= num_draft_blocks;
}

int64_t RequestMemory::growth(const GenerationRequest& request, int64_t num_blocks) const {
  const int64_t whole = request.budget_tokens(parts_.runner->options().max_verify_rows);
  const int64_t soon = std::min(whole, request.num_tokens() + kGrowthTokens);
  return std::max<int64_t>(0, blocks_for(soon, parts_.runner->options().block_size) - num_blocks);
}

int64_t RequestMemory::spare_blocks(const GenerationRequest& request, std::span<GenerationRequest* const> active) const {
  int64_t blocks = growth(request, blocks_for(budget(request), parts_.runner->options().block_size));
  for (const GenerationRequest* other : active) {
    blocks += growth(*other, static_cast<int64_t>(other->sequence->blocks().blocks().size()));
  }
  return blocks;
}

bool RequestMemory::try_acquire(GenerationRequest& request, std::span<GenerationRequest* const> active) {
  if (parts_.runner->states().num_free() == 0) return false;
  try {
    acquire(request, request.saved && !active.empty() ? spare_blocks(request, active) : 0);
  } catch (const Error& error) {
    release(request);
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    return false;
  } catch (...) {
    release(request);
    throw;
  }
  return true;
}

void RequestMemory::acquire(GenerationRequest& request, int64_t spare_blocks) {
  if (request.saved) {
    restore(request, spare_blocks);
  } else {
    start(request);
  }
  if (request.is_sampled()) {
    parts_.runner->sampler()->join(*parts_.stream, request.sequence->state_slot(), request.options.sampling, request.prompt,
                                   request.result.output_token_ids);
  }
  if (parts_.shadow != nullptr && !request.shadow) {
    request.shadow.emplace(parts_.shadow->create_sequence(request.budget_tokens(parts_.runner->options().max_verify_rows)));
  }
}

/// With as much of the prompt as the prefix cache has.
void RequestMemory::start(GenerationRequest& request) {
  const int64_t tokens = budget(request);
  const bool drafts = uses_drafter(request);
  PrefixMatch match;
  const bool adopts = drafts && keeps_draft_rows();
  if (prefixes_ != nullptr && parts_.shadow == nullptr) match = prefixes_->lookup(request.prompt, adopts);
  const int64_t block_size = parts_.runner->options().block_size;
  const int64_t shared = match.num_tokens > 0 ? prefixes_->num_shared_target_blocks(match) : 0;
  const int64_t shared_drafts = match.num_tokens > 0 && adopts ? prefixes_->num_shared_draft_blocks(match) : 0;
  const int64_t needed = blocks_for(tokens, block_size);
  if (!make_blocks(needed - shared, drafts ? needed - shared_drafts : 0)) {
    throw Error(ErrorCode::kOutOfMemory, "no room for another sequence");
  }
  if (match.num_tokens == 0) {
    request.sequence.emplace(parts_.runner->create_sequence(tokens));
    if (drafts) rows_->start(request, tokens, 0);
    return;
  }
  std::optional<DrafterKv> kv;
  if (adopts) kv.emplace(DrafterKv{.blocks = parts_.proposer->kv_cache().create_table(), .num_rows = match.num_draft_rows});
  request.sequence.emplace(parts_.runner->create_sequence(tokens, [&](BlockTable& blocks, int32_t state_slot) {
    prefixes_->resume(*parts_.stream, match,
                      {.target = &blocks,
                       .state_slot = state_slot,
                       .draft = kv ? &kv->blocks : nullptr,
                       .hidden_row = adopts ? rows_->place_of(state_slot) : Tensor()});
    return match.num_tokens;
  }));
  request.num_prefilled = match.num_tokens;
  request.num_grid_tokens = match.num_grid_tokens;
  request.result.num_cached_tokens = match.num_tokens;
  if (drafts && !adopts) rows_->start(request, tokens, match.num_tokens);
  if (!kv) return;
  give_state(request, std::move(*kv));
  if (!match.needs_boundary_row) return;
  const int32_t next_token_id = request.prompt[static_cast<size_t>(match.num_tokens)];
  rows_->set_parked(request, {.next_token_ids = {next_token_id}});
}

/// A state with the rows of `kv` and room for the request's budget.
void RequestMemory::give_state(GenerationRequest& request, DrafterKv kv) {
  if (!kv.blocks.reserve(budget(request))) throw Error(ErrorCode::kOutOfMemory, "no room for the drafter's rows");
  request.drafter = parts_.proposer->alloc_state(0);
  parts_.proposer->install_kv(kv, kv.first_missing_key(), *request.drafter);
}

std::vector<BufferView> RequestMemory::pieces(const GenerationRequest& request, std::span<const int32_t> draft_blocks) const {
  const int64_t block_size = parts_.runner->options().block_size;
  const TargetSequence& sequence = *request.sequence;
  std::vector<BufferView> views;
  const auto blocks = sequence.blocks().blocks().first(static_cast<size_t>(blocks_for(sequence.num_tokens(), block_size)));
  parts_.runner->kv_cache().append_views(blocks, views);
  parts_.runner->states().append_views(sequence.state_slot(), views);
  if (!draft_blocks.empty()) parts_.proposer->kv_cache().append_views(draft_blocks, views);
  if (!request.pending.next_token_ids.empty()) {
    views.push_back(rows_->hidden().rows(request.pending.first_hidden_row, 1).view());
  }
  return views;
}

void RequestMemory::save(GenerationRequest& request) {
  parts_.runner->commit(*request.sequence);
  std::optional<DrafterKv> kv;
  std::span<const int32_t> draft_blocks;
  if (request.drafter) {
    rows_->keep_newest(request);
    kv.emplace(parts_.proposer->take_kv(*request.drafter));
    const int64_t block_size = parts_.runner->options().block_size;
    draft_blocks = kv->blocks.blocks().first(static_cast<size_t>(blocks_for(kv->num_rows, block_size)));
  }
  request.saved.emplace(SavedRequest{
      .bytes = HostCopy(*parts_.backend, *parts_.stream, pieces(request, draft_blocks)),
      .num_tokens = request.sequence->num_tokens(),
      .num_draft_rows = kv ? kv->num_rows : 0,
      .num_draft_keys = kv ? kv->num_keys : 0,
      .pending = request.pending,
  });
  release(request);
  request.phase = Phase::kWaiting;
  ++request.result.num_preemptions;
}

void RequestMemory::restore(GenerationRequest& request, int64_t spare_blocks) {
  const SavedRequest& saved = *request.saved;
  const int64_t block_size = parts_.runner->options().block_size;
  const bool drafts = uses_drafter(request);
  const int64_t needed = blocks_for(std::max(budget(request), saved.num_tokens), block_size) + spare_blocks;
  if (!make_blocks(needed, drafts ? needed : 0)) throw Error(ErrorCode::kOutOfMemory, "no room for another sequence");
  request.sequence.emplace(parts_.runner->create_sequence(budget(request), [&](BlockTable& blocks, int32_t) {
    if (!blocks.reserve(saved.num_tokens)) throw Error(ErrorCode::kOutOfMemory, "no room for another sequence");
    return saved.num_tokens;
  }));
  std::optional<DrafterKv> kv;
  std::vector<int32_t> draft_blocks;
  if (drafts) {
    kv.emplace(DrafterKv{.blocks = parts_.proposer->kv_cache().create_table(),
                         .num_rows = saved.num_draft_rows,
                         .num_keys = saved.num_draft_keys});
    if (!kv->blocks.reserve(saved.num_draft_rows)) throw Error(ErrorCode::kOutOfMemory, "no room for the drafter's rows");
    draft_blocks.assign(kv->blocks.blocks().begin(), kv->blocks.blocks().end());
  }
  if (!saved.pending.next_token_ids.empty()) rows_->set_parked(request, saved.pending);
  saved.bytes.restore(*parts_.stream, pieces(request, draft_blocks));
  if (kv) give_state(request, std::move(*kv));
  request.saved.reset();
  request.phase = Phase::kDecode;
}

void RequestMemory::release(GenerationRequest& request) {
  if (request.sequence && request.is_sampled() && parts_.runner->sampler()->is_taken(request.sequence->state_slot())) {
    parts_.runner->sampler()->leave(request.sequence->state_slot());
  }
  request.drafter.reset();
  request.sequence.reset();
  request.pending = {};
  if (request.is_finished()) {
    request.shadow.reset();
    request.saved.reset();
  }
}

bool RequestMemory::make_room(GenerationRequest& request, int64_t num_rows) {
  const int64_t missing = parts_.runner->missing_blocks(*request.sequence, num_rows);
  if (missing == 0) return true;
  // The drafter grows with the target: its rows are never more than the target's.
  return make_blocks(missing, request.drafter ? missing : 0) && parts_.runner->reserve(*request.sequence, num_rows);
}

const Tensor& RequestMemory::hidden() const { return rows_ != nullptr ? rows_->hidden() : parts_.runner->model().hidden(); }

void RequestMemory::offer(GenerationRequest& request, std::span<const int32_t> token_ids, const Tensor& hidden_row) {
  PrefixSource source{.token_ids = token_ids,
                      .target_blocks = request.sequence->blocks().blocks(),
                      .draft_blocks = {},
                      .num_grid_tokens = request.num_grid_tokens};
  if (request.drafter && keeps_draft_rows()) source.draft_blocks = parts_.proposer->kv_blocks(*request.drafter);
  static_cast<void>(prefixes_->insert(*parts_.stream, source, request.sequence->state_slot(), hidden_row));
}

void RequestMemory::offer_chunk(GenerationRequest& request, int64_t num_rows) {
  if (prefixes_ == nullptr) return;
  const int64_t position = request.num_prefilled;
  request.num_grid_tokens = prefixes_->advance_grid(request.num_grid_tokens, position - num_rows, num_rows);
  if (!prefixes_->wants_insert(position, static_cast<int64_t>(request.prompt.size()))) return;
  offer(request, std::span(request.prompt).first(static_cast<size_t>(position)), hidden().rows(num_rows - 1, 1));
}

void RequestMemory::offer_turn(GenerationRequest& request) {
  if (prefixes_ == nullptr || !request.sequence) return;
  if (request.sequence->num_tokens() < static_cast<int64_t>(request.prompt.size())) return;  // cancelled while it was read
  if (request.drafter && request.pending.next_token_ids.empty()) return;
  parts_.runner->commit(*request.sequence);
  Tensor hidden_row = hidden().rows(0, 1);  // without drafter rows nobody reads it
  if (request.drafter) {
    rows_->keep_newest(request);
    hidden_row = hidden().rows(request.pending.first_hidden_row, 1);
  }
  std::vector<int32_t> token_ids = request.prompt;
  const auto& text = request.result.output_token_ids;
  token_ids.insert(token_ids.end(), text.begin(), text.end());
  token_ids.resize(static_cast<size_t>(request.sequence->num_tokens()));
  offer(request, token_ids, hidden_row);
}

}  // namespace foretoken
