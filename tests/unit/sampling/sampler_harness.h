// A sampler with its own round of metadata, fed with logits by the test.
#pragma once

#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "speculative/sampler.h"
#include "tests/unit/sampling/test_device.h"

namespace foretoken::test {

/// Picks of a step, with the logits that they were drawn from.
struct SampledStep {
  std::vector<int32_t> picks;
  std::vector<int32_t> num_accepted;          // of each part
  std::vector<std::vector<float>> processed;  // of each row
};

/// A part of a step with the logits of its rows and its drafts.
struct HarnessPart {
  int32_t slot = -1;
  int64_t first_position = 0;
  std::vector<std::vector<float>> logits;
  std::vector<int32_t> drafts{};
  int64_t block_row = -1;
};

class SamplerHarness {
 public:
  explicit SamplerHarness(const SamplerOptions& options) : options_(options), sampler_(device_.backend(), round_, options) {
    round_.allocate(device_.backend());
    logits_ = device_.tensor(DType::kF32, {options.max_rows, options.vocab_size});
    token_ids_ = device_.tensor(DType::kI32, {options.max_rows});
    picks_ = device_.tensor(DType::kI32, {options.max_rows});
    starts_ = device_.tensor(DType::kI32, {options.max_sequences + 1});
    num_accepted_ = device_.tensor(DType::kI32, {options.max_sequences});
    draft_token_ids_ = device_.tensor(DType::kI32, {std::max<int64_t>(options.max_drafts, 1), options.max_sequences + 3});
  }

  [[nodiscard]] Sampler& sampler() { return sampler_; }
  [[nodiscard]] TestDevice& device() { return device_; }
  void join(int32_t slot, const SamplingParams& params, const std::vector<int32_t>& prompt,
            const std::vector<int32_t>& output = {}) {
    sampler_.join(device_.stream(), slot, params, prompt, output);
  }

  /// A whole step: stage, masks where they are needed, picks, acceptance.
  SampledStep step(const std::vector<HarnessPart>& parts) {
    std::vector<SamplerPart> staged;
    std::vector<std::vector<int32_t>> drafts;
    std::vector<int32_t> token_ids;
    std::vector<int32_t> starts{0};
    std::vector<float> logits;
    for (const HarnessPart& part : parts) {
      staged.push_back({.slot = part.slot,
                        .num_rows = static_cast<int64_t>(part.logits.size()),
                        .first_position = part.first_position,
                        .block_row = part.block_row});
      drafts.push_back(part.drafts);
      token_ids.push_back(0);
      token_ids.insert(token_ids.end(), part.drafts.begin(), part.drafts.end());
      starts.push_back(static_cast<int32_t>(token_ids.size()));
      for (const auto& row : part.logits) logits.insert(logits.end(), row.begin(), row.end());
    }
    sampler_.stage(device_.stream(), staged);
    if (sampler_.needs_draft_ids(staged)) sampler_.stage_masks(device_.stream(), staged, drafts);
    round_.upload(device_.stream());
    const auto rows = static_cast<int64_t>(token_ids.size());
    const auto num_parts = static_cast<int64_t>(parts.size());
    device_.write(logits_.rows(0, rows), logits);
    device_.write(token_ids_.rows(0, rows), token_ids);
    device_.write(starts_.rows(0, num_parts + 1), starts);
    device_.stream().run([&](CommandList& cmd) {
      sampler_.record_picks(cmd, logits_.rows(0, rows), token_ids_.rows(0, rows), picks_.rows(0, rows));
      sampler_.record_accept(cmd, logits_.rows(0, rows), token_ids_.rows(0, rows), starts_.rows(0, num_parts + 1),
                             picks_.rows(0, rows), num_accepted_.rows(0, num_parts));
    });
    SampledStep result{.picks = device_.read<int32_t>(picks_.rows(0, rows)),
                       .num_accepted = device_.read<int32_t>(num_accepted_.rows(0, num_parts)),
                       .processed = {}};
    for (int64_t row = 0; row < rows; ++row) result.processed.push_back(device_.read<float>(logits_.rows(row, 1)));
    return result;
  }

  /// Draft passes of parts with these slots and first positions; draft_logits(pass, part, drafts before) are the drafter's.
  template <class DraftLogits>
  std::vector<std::vector<int32_t>> draft(const std::vector<HarnessPart>& parts, int64_t num_drafts,
                                          const DraftLogits& draft_logits) {
    std::vector<SamplerPart> staged;
    for (const HarnessPart& part : parts) staged.push_back({.slot = part.slot, .first_position = part.first_position});
    sampler_.stage_drafts(staged);
    round_.upload(device_.stream());
    const auto count = static_cast<int64_t>(parts.size());
    std::vector<std::vector<int32_t>> drafts(parts.size());
    for (int64_t pass = 0; pass < num_drafts; ++pass) {
      std::vector<float> logits;
      for (size_t i = 0; i < parts.size(); ++i) {
        const std::vector<float> row = draft_logits(pass, i, drafts[i]);
        logits.insert(logits.end(), row.begin(), row.end());
      }
      device_.write(logits_.rows(0, count), logits);
      device_.stream().run(
          [&](CommandList& cmd) { sampler_.record_drafts(cmd, pass, logits_.rows(0, count), draft_token_ids_); });
      const auto row = device_.read<int32_t>(draft_token_ids_.rows(pass, 1));
      for (size_t i = 0; i < parts.size(); ++i) drafts[i].push_back(row[i]);
    }
    return drafts;
  }

  [[nodiscard]] std::vector<float> random_row(uint64_t seed, float spread = 2.0F) const {
    std::mt19937_64 generator(seed);
    std::normal_distribution<float> normal(0.0F, spread);
    std::vector<float> row(static_cast<size_t>(options_.vocab_size));
    for (float& logit : row) logit = normal(generator);
    return row;
  }

 private:
  SamplerOptions options_;
  TestDevice device_;
  MetadataBuffer round_;
  Sampler sampler_;
  Tensor logits_, token_ids_, picks_, starts_, num_accepted_, draft_token_ids_;
};

}  // namespace foretoken::test
