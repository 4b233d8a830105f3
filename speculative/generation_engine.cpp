#include "speculative/generation_engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/fault.h"
#include "speculative/self_check.h"

namespace foretoken {
namespace {

using Phase = GenerationRequest::Phase;

[[noreturn]] void fail(const std::string& what, const std::string& expected, int64_t got) {
  throw Error(ErrorCode::kInvalidArgument, {.what = what, .expected = expected, .got = std::to_string(got)});
}

}  // namespace

GenerationEngine::GenerationEngine(const GenerationParts& parts, GenerationEngineOptions options)
    : parts_(parts),
      options_(std::move(options)),
      begin_event_(parts.backend->create_event()),
      draft_event_(parts.backend->create_event()),
      verify_event_(parts.backend->create_event()) {
  if (parts.proposer != nullptr) rows_.emplace(*parts.stream, *parts.runner, *parts.proposer, options_.draft_prompt_rows);
  if (parts.shadow != nullptr && (!parts.runner->options().keep_logits || !parts.shadow->options().keep_logits)) {
    throw Error(ErrorCode::kInvalidArgument, "the self-check compares logits: both target runners need keep_logits");
  }
  if (options_.prefix_cache) {
    const Tensor& hidden = rows_ ? rows_->hidden() : parts.runner->model().hidden();
    prefixes_.emplace(*parts.backend,
                      PrefixMemory{.target = &parts.runner->kv_cache(),
                                   .states = &parts.runner->states(),
                                   .draft = parts.proposer != nullptr ? &parts.proposer->kv_cache() : nullptr,
                                   .hidden_row_bytes = hidden.rows(0, 1).view().bytes},
                      *options_.prefix_cache);
  }
  memory_.emplace(parts_, rows_ ? &*rows_ : nullptr, prefixes_ ? &*prefixes_ : nullptr, options_.overcommit);
}

GenerationEngine::~GenerationEngine() = default;

int64_t GenerationEngine::max_context() const {
  return std::min(parts_.runner->options().max_seq_len, parts_.runner->model().config().max_position_embeddings);
}

void GenerationEngine::set_depth_policy(std::unique_ptr<DepthPolicy> policy) {
  if (num_waiting() + num_active() > 0) {
    throw Error(ErrorCode::kInvalidState, "the depth policy cannot change while there are requests");
  }
  options_.depth_policy = std::move(policy);
}

void GenerationEngine::clear_prefixes() {
  if (prefixes_) prefixes_->clear();
}

void GenerationEngine::check_request(std::span<const int32_t> prompt, const GenerationOptions& options) const {
  parts_.runner->check_prompt(prompt);
  const auto prompt_tokens = static_cast<int64_t>(prompt.size());
  if (prompt_tokens >= max_context())
    fail("tokens of the prompt", "fewer than the context of " + std::to_string(max_context()), prompt_tokens);
  if (options.max_tokens < 1) fail("tokens to generate", "at least 1", options.max_tokens);
  std::vector<int64_t> depths = options.depth_pattern;
  depths.push_back(options.num_speculative_tokens);
  const int64_t max_depth =
      parts_.proposer == nullptr ? 0 : std::min(parts_.proposer->max_drafts(), parts_.runner->options().max_verify_rows - 1);
  for (const int64_t depth : depths) {
    if (depth >= 0 && depth <= max_depth) continue;
    fail("speculative tokens", parts_.proposer == nullptr ? "0, since there is no drafter" : "0 .. " + std::to_string(max_depth),
         depth);
  }
  for (const int64_t accepts : options.forced.pattern) {
    if (accepts < 0) fail("forced accept count", "at least 0", accepts);
  }
}

RequestId GenerationEngine::submit(std::vector<int32_t> prompt, GenerationOptions options) {
  check_request(prompt, options);
  auto request =
      std::make_unique<GenerationRequest>(next_id_, std::move(prompt), std::move(options), parts_.tokenizer, max_context());
  validate(request->options.sampling, parts_.runner->model().config().vocab_size);
  if (request->is_sampled()) {
    if (parts_.runner->sampler() == nullptr) {
      throw Error(ErrorCode::kInvalidArgument, "sampling needs a target runner with a sampler");
    }
    if (parts_.shadow != nullptr) throw Error(ErrorCode::kInvalidArgument, "the self-check compares greedy texts only");
  }
  memory_->check_fits(*request);
  waiting_.push_back(request.get());
  requests_.emplace(next_id_, std::move(request));
  return next_id_++;
}

GenerationRequest& GenerationEngine::request(RequestId id) const {
  const auto found = requests_.find(id);
  if (found == requests_.end()) throw Error(ErrorCode::kInvalidArgument, "no request has the id " + std::to_string(id));
  return *found->second;
}

void GenerationEngine::cancel(RequestId id) {
  GenerationRequest& cancelled = request(id);
  if (!cancelled.is_finished()) cancelled.finish(FinishReason::kCancelled);  // its memory goes back between two rounds
}

bool GenerationEngine::is_finished(RequestId id) const { return request(id).is_finished(); }

bool GenerationEngine::is_decoding(RequestId id) const { return request(id).phase == Phase::kDecode; }

GenerationResult GenerationEngine::take_result(RequestId id) {
  if (!request(id).is_finished()) {
    throw Error(ErrorCode::kInvalidState, "request " + std::to_string(id) + " is not finished yet");
  }
  drop_finished();
  GenerationResult result = std::move(request(id).result);
  requests_.erase(id);
  return result;
}

GenerationResult GenerationEngine::generate(std::span<const int32_t> prompt, const GenerationOptions& options) {
  const RequestId id = submit({prompt.begin(), prompt.end()}, options);
  try {
    while (!is_finished(id)) step();
  } catch (...) {
    cancel(id);
    static_cast<void>(take_result(id));
    throw;
  }
  return take_result(id);
}

bool GenerationEngine::step() {
  drop_finished();
  admit();
  const bool did_prefill = prefill_one_chunk();
  decode_round(did_prefill);
  drop_finished();
  if (callback_error_) std::rethrow_exception(std::exchange(callback_error_, nullptr));
  return !active_.empty() || !waiting_.empty();
}

void GenerationEngine::preempt(RequestId id) {
  GenerationRequest& wanted = request(id);
  if (wanted.phase != Phase::kDecode) {
    throw Error(ErrorCode::kInvalidState, "request " + std::to_string(id) + " does not decode: it cannot be preempted");
  }
  preempt(wanted);
}

void GenerationEngine::preempt(GenerationRequest& request) {
  memory_->save(request);
  std::erase(active_, &request);
  waiting_.push_front(&request);
  ++statistics_.num_preemptions;
}

void GenerationEngine::drop_finished() {
  std::erase_if(waiting_, [](const GenerationRequest* waiting) { return waiting->is_finished(); });
  for (GenerationRequest* active : active_) {
    if (!active->is_finished()) continue;
    memory_->offer_turn(*active);
    memory_->release(*active);
  }
  std::erase_if(active_, [](const GenerationRequest* active) { return active->is_finished(); });
}

void GenerationEngine::admit() {
  while (!waiting_.empty()) {
    GenerationRequest& first = *waiting_.front();
    if (!memory_->try_acquire(first, active_)) {
      if (!active_.empty()) break;  // as soon as another one has left
      throw Error(ErrorCode::kOutOfMemory, "no room for request " + std::to_string(first.id) + " although nothing else runs");
    }
    if (first.phase == Phase::kWaiting) {
      first.phase = Phase::kPrefill;
      first.admitted_at = GenerationRequest::Clock::now();
    }
    active_.push_back(&first);
    waiting_.pop_front();
  }
  statistics_.max_active = std::max(statistics_.max_active, num_active());
}

bool GenerationEngine::prefill_one_chunk() {
  const auto found =
      std::ranges::find_if(active_, [](const GenerationRequest* active) { return active->phase == Phase::kPrefill; });
  if (found == active_.end()) return false;
  GenerationRequest& request = **found;
  if (rows_) {
    if (request.drafter) rows_->flush(request);
    for (GenerationRequest* active : active_) rows_->park(*active);
  }
  const auto prompt_tokens = static_cast<int64_t>(request.prompt.size());
  const int64_t first = request.num_prefilled;
  const int64_t rows = parts_.runner->next_chunk(first, prompt_tokens);
  const auto token_ids = std::span(request.prompt).subspan(static_cast<size_t>(first), static_cast<size_t>(rows));
  parts_.runner->prefill_chunk(*request.sequence, token_ids);
  if (request.drafter) rows_->append_chunk(request, first, rows);
  request.num_prefilled += rows;
  ++statistics_.num_prefill_chunks;
  memory_->offer_chunk(request, rows);
  if (request.num_prefilled == prompt_tokens) finish_prefill(request, rows);
  return true;
}

void GenerationEngine::finish_prefill(GenerationRequest& request, int64_t num_rows) {
  parts_.runner->finish_prefill(*request.sequence, num_rows, request.is_sampled());
  const std::vector<int32_t> first = parts_.runner->read_picks(1);
  if (request.shadow) parts_.shadow->prefill(*request.shadow, request.prompt, nullptr);
  if (request.drafter) rows_->add(request, first, 0);
  if (request.is_sampled()) parts_.runner->sampler()->commit(request.sequence->state_slot(), first);
  request.phase = Phase::kDecode;
  emit(request, first);
}

int64_t GenerationEngine::emit(GenerationRequest& request, std::span<const int32_t> token_ids) {
  const auto before = static_cast<int64_t>(request.result.output_token_ids.size());
  try {
    request.emit(token_ids);
  } catch (...) {
    if (!callback_error_) callback_error_ = std::current_exception();
    request.finish(FinishReason::kCancelled);
  }
  return static_cast<int64_t>(request.result.output_token_ids.size()) - before;
}

GenerationEngine::Round GenerationEngine::make_round() {
  Round round;
  for (GenerationRequest* active : active_) {
    if (active->phase == Phase::kDecode)
      round.push_back({.request = active, .depth = 0, .token_ids = {}, .first_row = 0, .block_row = -1});
  }
  if (round.empty()) return round;
  choose_depths(round);
  reserve(round);
  number_rows(round);
  return round;
}

void GenerationEngine::number_rows(Round& round) const {
  const int64_t vocab_size = parts_.runner->model().config().vocab_size;
  int64_t first_row = 0;
  int64_t num_drafting = 0;
  for (Member& member : round) {
    member.token_ids = member.request->step_token_ids(member.depth, vocab_size);
    member.first_row = first_row;
    member.block_row = member.depth > 0 ? num_drafting++ : -1;
    first_row += 1 + member.depth;
  }
}

void GenerationEngine::reserve(Round& round) {
  for (size_t i = 0; i < round.size(); ++i) {
    while (!memory_->make_room(*round[i].request, 1 + round[i].depth)) {
      if (round.size() == 1)
        throw Error(ErrorCode::kOutOfMemory, "the caches have no room for the next rows of the only request");
      preempt(*round.back().request);
      round.pop_back();
      if (i == round.size()) return;  // it was the youngest itself
    }
  }
}

void GenerationEngine::choose_depths(Round& round) {
  std::vector<ActiveSequence> sequences;
  for (Member& member : round) {
    if (member.request->drafter) member.depth = member.request->wanted_depth();
    sequences.push_back({.state = &member.request->depth_state, .max_drafts = member.depth});
  }
  if (!options_.depth_policy) return;
  const std::vector<int64_t> depths = options_.depth_policy->depths(sequences);
  for (size_t i = 0; i < round.size(); ++i) {
    if (is_policys(*round[i].request)) round[i].depth = depths[i];
  }
}

void GenerationEngine::stage(const Round& round) {
  std::vector<StepPart> parts;
  for (const Member& member : round) {
    parts.push_back({.sequence = &*member.request->sequence,
                     .token_ids = member.token_ids,
                     .block_row = member.block_row,
                     .is_sampled = member.request->is_sampled()});
  }
  const bool drafts = std::ranges::any_of(round, [](const Member& member) { return member.block_row >= 0; });
  parts_.runner->stage(parts, drafts ? parts_.proposer->block_token_ids() : Tensor());
}

/// As many rows as the chains have drafts, which may be fewer than were asked for.
void GenerationEngine::stage_drafted(Round& round) {
  for (Member& member : round) {
    if (member.depth > 0) member.depth = parts_.proposer->num_drafted(*member.request->drafter);
  }
  number_rows(round);
  stage(round);
}

void GenerationEngine::draft(const Round& round) {
  if (!rows_) return;
  std::vector<DraftPart> parts;
  for (const Member& member : round) {
    GenerationRequest& request = *member.request;
    if (member.depth == 0) {
      rows_->pass_by(request, is_policys(request) ? options_.depth_policy->num_plain_rounds_ahead() : 0);
      continue;
    }
    rows_->make_proposable(request);
    parts.push_back({.state = request.drafter.get(),
                     .next_token_ids = request.pending.next_token_ids,
                     .first_hidden_row = request.pending.first_hidden_row,
                     .num_drafts = member.depth,
                     .sampler_slot = request.is_sampled() ? request.sequence->state_slot() : -1});
  }
  if (!parts.empty()) static_cast<void>(parts_.proposer->propose(*parts_.stream, parts, rows_->hidden()));
  for (const Member& member : round) {
    if (member.depth > 0) member.request->pending = {};
  }
}

/// Token masks follow the drafts, so the host reads them first.
void GenerationEngine::stage_masks(const Round& round) {
  std::vector<std::vector<int32_t>> drafts;
  for (const Member& member : round) {
    std::vector<int32_t>& ids = drafts.emplace_back(static_cast<size_t>(member.depth));
    if (member.block_row < 0) continue;
    const Tensor row = parts_.proposer->block_token_ids().rows(member.block_row, 1).columns(1, member.depth);
    parts_.stream->download(row.view(), std::as_writable_bytes(std::span(ids)));
    for (size_t i = 0; i < ids.size(); ++i) {
      if (member.token_ids[1 + i] >= 0) ids[i] = member.token_ids[1 + i];
    }
  }
  parts_.runner->stage_masks(drafts);
}

void GenerationEngine::decode_round(bool did_other_work) {
  const GenerationRequest::Clock::time_point begin = GenerationRequest::Clock::now();
  Round round = make_round();
  if (round.empty()) return;
  Stream& stream = *parts_.stream;
  const bool may_stop_early = parts_.proposer != nullptr && parts_.proposer->may_stop_early();
  if (!may_stop_early) stage(round);
  stream.record(*begin_event_);
  draft(round);
  stream.record(*draft_event_);
  if (may_stop_early) stage_drafted(round);
  if (parts_.runner->needs_draft_ids()) stage_masks(round);
  parts_.runner->run();
  stream.record(*verify_event_);
  const std::vector<StepResult> results = parts_.runner->finish();
  ++statistics_.num_rounds;

  const bool drafted = std::ranges::any_of(round, [](const Member& member) { return member.depth > 0; });
  RoundTime time{.draft_us = drafted ? draft_event_->elapsed_us(*begin_event_) : 0.0,
                 .verify_us = verify_event_->elapsed_us(*draft_event_)};
  statistics_.draft_us += time.draft_us;
  statistics_.verify_us += time.verify_us;
  for (const Member& member : round) {
    member.request->result.timing.draft_ms += time.draft_us / 1000.0;
    member.request->result.timing.verify_ms += time.verify_us / 1000.0;
  }
  std::vector<SequenceOutcome> outcomes = apply(round, results);
  if (!options_.depth_policy) return;
  const double total_us = std::chrono::duration<double, std::micro>(GenerationRequest::Clock::now() - begin).count();
  time.host_us = std::max(0.0, total_us - time.draft_us - time.verify_us);
  options_.depth_policy->observe({.sequences = outcomes, .time = did_other_work ? std::nullopt : std::optional(time)});
}

std::vector<SequenceOutcome> GenerationEngine::apply(const Round& round, std::span<const StepResult> results) {
  std::vector<SequenceOutcome> outcomes;
  for (size_t i = 0; i < round.size(); ++i) {
    const Member& member = round[i];
    GenerationRequest& request = *member.request;
    const int64_t accepted = results[i].num_accepted;
    auto committed = std::span(results[i].target_token_ids).first(static_cast<size_t>(accepted + 1));
    const int64_t left_out = member.depth > 0 ? parts_.proposer->after_verify(accepted, *request.drafter) : 0;
    if (request.shadow) self_check(parts_, request, {member.token_ids[0], member.first_row, committed});
    if (request.is_sampled()) parts_.runner->sampler()->commit(request.sequence->state_slot(), committed);
    const std::span<const int32_t> whole = committed;
    if (fault::active(Fault::kBonusTokenDropped) && committed.size() > 1) committed = committed.first(committed.size() - 1);
    const int64_t emitted = request.is_finished() ? 0 : emit(request, committed);  // a callback may have cancelled it
    if (request.drafter) {
      const auto rows = request.is_finished() ? whole.first(static_cast<size_t>(emitted)) : whole;
      rows_->add(request, rows.subspan(std::min(static_cast<size_t>(left_out), rows.size())), member.first_row + left_out);
    }
    // A text that ends inside a block ends there in the caches too.
    if (request.is_finished() && emitted > 0 && member.depth > 0) TargetRunner::keep_rows(*request.sequence, results[i], emitted);
    ++request.round_idx;
    outcomes.push_back({.state = &request.depth_state, .num_drafted = member.depth, .num_accepted = accepted});
    if (member.depth == 0) continue;
    request.result.speculation.drafted += member.depth;
    request.result.speculation.accepted_per_round.push_back(std::min(emitted, accepted));
  }
  return outcomes;
}

}  // namespace foretoken
