// The passes of a draft batch: recorded, replayed whole or one by one, or left to a caller's program.
#include <algorithm>
#include <cmath>
#include <exception>
#include <string>

#include "core/error.h"
#include "core/log.h"
#include "speculative/mtp_proposer.h"

namespace foretoken {

bool MtpProposer::is_served(const DraftBucket& bucket) const {
  return draft_program_ != nullptr && bucket.num_drafts > 0 && draft_program_->serves(bucket);
}

std::vector<int64_t> MtpProposer::run_batch(Stream& stream, std::span<const DraftPart> parts, const DraftBucket& bucket,
                                            const Tensor& hidden, bool is_drawn) {
  if (options_.confidence_stop && !is_drawn) return run_until_unsure(stream, parts, bucket, hidden);
  if (!is_drawn && is_served(bucket)) {
    draft_program_->run(stream, bucket, hidden);
    stream.run(program(bucket, hidden, false, bucket.num_drafts));
    stream.record(*draft_program_ran_);
  } else {
    stream.run(program(bucket, hidden, is_drawn, kAllPasses));
  }
  std::vector<int64_t> drafts(parts.size());
  std::ranges::transform(parts, drafts.begin(), &DraftPart::num_drafts);
  return drafts;
}

/// A draft that is not sure enough is the last one of its chain. NaN ends nothing.
std::vector<int64_t> MtpProposer::run_until_unsure(Stream& stream, std::span<const DraftPart> parts, const DraftBucket& bucket,
                                                   const Tensor& hidden) {
  const double threshold = std::log(*options_.confidence_stop);
  std::vector<int64_t> drafts(parts.size());
  std::ranges::transform(parts, drafts.begin(), &DraftPart::num_drafts);
  std::vector<float> logprobs(parts.size());
  const auto num_parts = static_cast<int64_t>(parts.size());
  if (bucket.num_drafts == 0) stream.run(program(bucket, hidden, false, kAllPasses));
  for (int64_t i = 0; i < *std::ranges::max_element(drafts); ++i) {
    stream.run(program(bucket, hidden, false, i));
    stream.download(logprobs_.at(i).rows(0, num_parts).view(), std::as_writable_bytes(std::span(logprobs)));
    for (size_t b = 0; b < parts.size(); ++b) {
      if (logprobs[b] < threshold) drafts[b] = std::min(drafts[b], i + 1);
    }
  }
  if (bucket.num_drafts > 0) stream.run(program(bucket, hidden, false, bucket.num_drafts));
  return drafts;
}

MtpPass MtpProposer::first_pass(const DraftBucket& bucket, const Tensor& hidden) const {
  return {.next_token_ids = metadata_.next_token_ids(bucket),
          .hidden = hidden,
          .hidden_rows = metadata_.hidden_rows(bucket),
          .cos_sin = head_.angles().rows(0, bucket.num_rows),
          .view = metadata_.view(bucket, 0)};
}

/// The token and the chained hidden state of the pass before.
MtpPass MtpProposer::chained_pass(const DraftBucket& bucket, int64_t pass_idx) const {
  return {.next_token_ids = draft_token_ids_.at(pass_idx - 1).rows(0, bucket.num_sequences),
          .hidden = head_.chain_input(bucket.num_sequences),
          .cos_sin = head_.angles().rows(DraftMetadata::first_row(bucket, pass_idx), bucket.num_sequences),
          .view = metadata_.view(bucket, pass_idx)};
}

/// The drafts of a pass, by the head or by the sampler.
void MtpProposer::record_draft(CommandList& cmd, const MtpPass& pass, int64_t pass_idx, bool is_drawn) const {
  const int64_t drafting = pass.view.seq_lens.dim(0);
  if (is_drawn) {
    Tensor logits;
    static_cast<void>(head_.draft_logits(cmd, pass, cache_.layer(0), logits));
    options_.sampler->record_drafts(cmd, pass_idx, logits, draft_token_ids_);
    return;
  }
  const Tensor logprobs = log_probabilities() ? logprobs_.at(pass_idx).rows(0, drafting) : Tensor();
  static_cast<void>(head_.draft(cmd, pass, cache_.layer(0), draft_token_ids_.at(pass_idx).rows(0, drafting), logprobs));
}

/// The angles of all passes come with the first.
void MtpProposer::record_pass(CommandList& cmd, const DraftBucket& bucket, const Tensor& hidden, bool is_drawn,
                              int64_t pass_idx) const {
  if (pass_idx == 0) head_.rope_angles(cmd, metadata_.positions(bucket));
  record_draft(cmd, pass_idx == 0 ? first_pass(bucket, hidden) : chained_pass(bucket, pass_idx), pass_idx, is_drawn);
}

void MtpProposer::record(CommandList& cmd, const DraftBucket& bucket, const Tensor& hidden, bool is_drawn,
                         int64_t pass_idx) const {
  if (pass_idx == bucket.num_drafts && bucket.num_drafts > 0) return record_block(cmd, bucket);
  if (pass_idx != kAllPasses) return record_pass(cmd, bucket, hidden, is_drawn, pass_idx);
  if (bucket.num_drafts == 0) {
    head_.rope_angles(cmd, metadata_.positions(bucket));
    head_.write_rows(cmd, first_pass(bucket, hidden), cache_.layer(0));
  }
  for (int64_t i = 0; i < bucket.num_drafts; ++i) record_pass(cmd, bucket, hidden, is_drawn, i);
  record_block(cmd, bucket);
}

/// From drafts by pass to blocks by sequence.
void MtpProposer::record_block(CommandList& cmd, const DraftBucket& bucket) const {
  const int64_t num_tokens = bucket.num_sequences * (1 + options_.max_drafts);
  ops::dispatch(cmd, SelectTokens{.host_token_ids = metadata_.block_host_ids(bucket),
                                  .source = draft_token_ids_.reshape({draft_token_ids_.shape().num_elements()}),
                                  .source_rows = metadata_.block_source_rows(bucket),
                                  .token_ids = block_token_ids_.rows(0, bucket.num_sequences).reshape({num_tokens})});
}

const Program& MtpProposer::program(const DraftBucket& bucket, const Tensor& hidden, bool is_drawn, int64_t pass_idx) {
  const ProgramKey key{bucket, hidden.address(), hidden.dim(0), is_drawn, pass_idx};
  auto found = programs_.find(key);
  if (found == programs_.end()) {
    const std::string label = "mtp draft x" + std::to_string(bucket.num_drafts) + ", " + std::to_string(bucket.num_rows) +
                              " rows of " + std::to_string(bucket.num_sequences) + " sequences" +
                              (pass_idx == kAllPasses ? "" : ", pass " + std::to_string(pass_idx));
    const auto fn = [this, bucket, hidden, is_drawn, pass_idx](CommandList& cmd) {
      record(cmd, bucket, hidden, is_drawn, pass_idx);
    };
    found = programs_.emplace(key, backend_.record(label, fn)).first;
  }
  return found->second;
}

void MtpProposer::prepare(const Tensor& hidden, int64_t num_sequences, int64_t num_rows, int64_t num_drafts, bool is_drawn) {
  const int64_t sequences = DraftBucket::of(num_sequences, num_sequences, num_drafts).num_sequences;
  for (int64_t rows = 1; rows <= num_rows; ++rows) {
    const DraftBucket bucket{.num_sequences = sequences, .num_rows = rows * sequences, .num_drafts = num_drafts};
    if (!options_.confidence_stop || is_drawn) {
      program(bucket, hidden, is_drawn, kAllPasses);
      continue;
    }
    for (int64_t pass = 0; pass <= num_drafts; ++pass) program(bucket, hidden, false, pass);
  }
}

InstalledDraftProgram::InstalledDraftProgram(MtpProposer& proposer, DraftProgram& program) : proposer_(proposer) {
  if (proposer.draft_program_ != nullptr) throw Error(ErrorCode::kInvalidState, "the proposer has a draft program already");
  if (const auto& unmodelled = proposer.binding_.unmodelled; !unmodelled.empty()) {
    std::string list;
    for (const std::string& feature : unmodelled) list += (list.empty() ? "" : ", ") + feature;
    throw Error(ErrorCode::kUnsupported, "a draft program cannot do what this proposer is asked for: " + list);
  }
  proposer.draft_program_ran_ = proposer.backend_.create_event();
  proposer.draft_program_ = &program;
}

InstalledDraftProgram::~InstalledDraftProgram() {
  proposer_.draft_program_ = nullptr;
  try {
    proposer_.draft_program_ran_->synchronize();
  } catch (const std::exception& error) {
    log().warn("the device failed while a draft program was at work: {}", error.what());
  }
}

}  // namespace foretoken
