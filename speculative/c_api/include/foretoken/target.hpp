// The target model of a checkpoint, step by step: see foretoken/target.h. Every call throws Error.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "foretoken/drafter.hpp"
#include "foretoken/target.h"

namespace foretoken {  // NOLINT(modernize-concat-nested-namespaces): formatters do not know the other way
inline namespace v0 {

/// The token after a prompt, and the hidden state of its last token.
struct FirstToken {
  int32_t token_id = 0;
  foretoken_rows hidden{};
};

/// What a step gave.
struct TargetStep {
  std::vector<int32_t> picks;  // the token after each row
  int32_t num_accepted = 0;    // leading drafts that equal the picks
  foretoken_rows hidden{};     // of all rows, until the target's next call

  /// The tokens that the step added to the text: accepted drafts, and the one after them.
  [[nodiscard]] std::span<const int32_t> new_tokens() const {
    return std::span(picks).first(static_cast<size_t>(num_accepted) + 1);
  }
};

/// One sequence of a target.
class TargetSequence {
 public:
  explicit TargetSequence(foretoken_target_sequence* handle) : handle_(handle) {}

  [[nodiscard]] int64_t num_tokens() const {
    int64_t tokens = 0;
    detail::check(foretoken_target_sequence_get(get(), &tokens));
    return tokens;
  }
  /// One pass; the rows that come back say how many of the tokens it took.
  [[nodiscard]] foretoken_rows prefill(std::span<const int32_t> token_ids) const {
    int64_t taken = 0;
    foretoken_rows hidden{};
    detail::check(foretoken_target_prefill(get(), token_ids.data(), static_cast<int64_t>(token_ids.size()), &taken, &hidden));
    return hidden;
  }
  [[nodiscard]] FirstToken finish_prefill() const {
    FirstToken first;
    detail::check(foretoken_target_finish_prefill(get(), &first.token_id, &first.hidden));
    return first;
  }
  [[nodiscard]] foretoken_target_sequence* get() const noexcept { return handle_.get(); }

 private:
  detail::Handle<foretoken_target_sequence, foretoken_target_sequence_free> handle_;
};

/// A target on a device.
class Target {
 public:
  /// An empty `model` is the bundled checkpoint.
  explicit Target(const Device& device, const std::string& model = {},
                  const foretoken_target_options& options = defaults<foretoken_target_options>())
      : handle_(detail::made<foretoken_target>([&](auto** handle) {
          return foretoken_target_load(device.get(), model.empty() ? nullptr : model.c_str(), &options, handle);
        })) {}

  [[nodiscard]] foretoken_target_info info() const {
    return detail::filled<foretoken_target_info>([&](auto* info) { return foretoken_target_get_info(get(), info); });
  }
  [[nodiscard]] TargetSequence sequence(int64_t max_tokens) const {
    return TargetSequence(detail::made<foretoken_target_sequence>(
        [&](auto** handle) { return foretoken_target_sequence_create(get(), max_tokens, handle); }));
  }
  /// Steps of many sequences at once.
  void step(std::span<foretoken_step> steps) const { detail::check(foretoken_target_step(get(), steps.data(), steps.size())); }
  /// A step of one: its newest token and the drafts after it.
  [[nodiscard]] TargetStep step(const TargetSequence& sequence, std::span<const int32_t> token_ids) const {
    TargetStep result;
    result.picks.resize(token_ids.size());
    foretoken_step one{};
    one.sequence = sequence.get();
    one.token_ids = token_ids.data();
    one.num_rows = static_cast<int32_t>(token_ids.size());
    one.picks = result.picks.data();
    step(std::span(&one, 1));
    result.num_accepted = one.num_accepted;
    result.hidden = one.hidden;
    return result;
  }
  /// A source of drafters that share this target's embedding and LM head.
  [[nodiscard]] foretoken_drafter_source drafter_source() const {
    auto source = defaults<foretoken_drafter_source>();
    source.target = get();
    return source;
  }
  [[nodiscard]] foretoken_target* get() const noexcept { return handle_.get(); }

 private:
  detail::Handle<foretoken_target, foretoken_target_free> handle_;
};

}  // namespace v0
}  // namespace foretoken
