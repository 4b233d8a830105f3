// A draft head with its cache: see foretoken/drafter.h for the round and for what each call does. Every call throws Error.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "foretoken/device.hpp"
#include "foretoken/drafter.h"

namespace foretoken {  // NOLINT(modernize-concat-nested-namespaces): formatters do not know the other way
inline namespace v0 {

/// Rows taken out of a sequence.
class DrafterKv {
 public:
  explicit DrafterKv(foretoken_kv* handle) : handle_(handle) {}

  [[nodiscard]] int64_t num_keys() const {
    int64_t keys = 0;
    detail::check(foretoken_kv_get(handle_.get(), &keys));
    return keys;
  }
  [[nodiscard]] foretoken_kv* get() const noexcept { return handle_.get(); }
  foretoken_kv* release() noexcept { return handle_.release(); }

 private:
  detail::Handle<foretoken_kv, foretoken_kv_free> handle_;
};

/// What a drafter keeps of one sequence.
class Sequence {
 public:
  explicit Sequence(foretoken_sequence* handle) : handle_(handle) {}

  /// As many rows as there are ids.
  void prefill(std::span<const int32_t> next_token_ids, const foretoken_rows& hidden) const {
    const foretoken_rows rows = first_rows(hidden, static_cast<int64_t>(next_token_ids.size()));
    detail::check(foretoken_sequence_prefill(get(), next_token_ids.data(), &rows));
  }
  /// The drafts.
  [[nodiscard]] std::vector<int32_t> propose(std::span<const int32_t> next_token_ids, const foretoken_rows& hidden,
                                             int32_t num_drafts) const {
    const foretoken_rows rows = first_rows(hidden, static_cast<int64_t>(next_token_ids.size()));
    std::vector<int32_t> drafts(static_cast<size_t>(num_drafts < 0 ? 0 : num_drafts));
    int32_t num_drafted = 0;
    detail::check(foretoken_sequence_propose(get(), next_token_ids.data(), &rows, num_drafts, drafts.data(), &num_drafted));
    drafts.resize(static_cast<size_t>(num_drafted));
    return drafts;
  }
  void after_verify(int32_t num_accepted) const { detail::check(foretoken_sequence_after_verify(get(), num_accepted)); }
  void skip(int64_t first_key) const { detail::check(foretoken_sequence_skip(get(), first_key)); }

  [[nodiscard]] int64_t num_rows() const {
    int64_t rows = 0;
    detail::check(foretoken_sequence_get(get(), &rows, nullptr));
    return rows;
  }
  [[nodiscard]] int64_t next_key() const {
    int64_t key = 0;
    detail::check(foretoken_sequence_get(get(), nullptr, &key));
    return key;
  }
  [[nodiscard]] DrafterKv take_kv() const {
    return DrafterKv(detail::made<foretoken_kv>([&](auto** handle) { return foretoken_sequence_take_kv(get(), handle); }));
  }
  /// `kv` is empty afterwards, unless it throws.
  void install_kv(DrafterKv&& kv, int64_t num_keys) const {
    detail::check(foretoken_sequence_install_kv(get(), kv.get(), num_keys));
    static_cast<void>(kv.release());
  }
  [[nodiscard]] foretoken_sequence* get() const noexcept { return handle_.get(); }

 private:
  detail::Handle<foretoken_sequence, foretoken_sequence_free> handle_;
};

/// A draft head on a device.
class Drafter {
 public:
  Drafter(const Device& device, const foretoken_drafter_source& source,
          const foretoken_drafter_options& options = defaults<foretoken_drafter_options>())
      : handle_(detail::made<foretoken_drafter>(
            [&](auto** handle) { return foretoken_drafter_load(device.get(), &source, &options, handle); })) {}
  /// The head of a checkpoint, with its embedding and LM head.
  Drafter(const Device& device, const std::string& model,
          const foretoken_drafter_options& options = defaults<foretoken_drafter_options>())
      : Drafter(device, source_of(model), options) {}

  [[nodiscard]] foretoken_drafter_info info() const {
    return detail::filled<foretoken_drafter_info>([&](auto* info) { return foretoken_drafter_get_info(get(), info); });
  }
  [[nodiscard]] foretoken_drafter_memory memory() const {
    return detail::filled<foretoken_drafter_memory>([&](auto* memory) { return foretoken_drafter_get_memory(get(), memory); });
  }
  [[nodiscard]] foretoken_drafter_statistics statistics() const {
    return detail::filled<foretoken_drafter_statistics>(
        [&](auto* statistics) { return foretoken_drafter_get_statistics(get(), statistics); });
  }
  [[nodiscard]] std::string notes() const {
    const char* notes = nullptr;
    detail::check(foretoken_drafter_get_notes(get(), &notes));
    return notes;
  }
  void prepare(int32_t num_sequences, int32_t num_drafts, foretoken_dtype hidden_dtype) const {
    detail::check(foretoken_drafter_prepare(get(), num_sequences, num_drafts, hidden_dtype));
  }

  [[nodiscard]] Sequence sequence(int64_t max_tokens) const {
    return Sequence(
        detail::made<foretoken_sequence>([&](auto** handle) { return foretoken_sequence_create(get(), max_tokens, handle); }));
  }
  /// Drafts for many sequences at once.
  void propose(std::span<foretoken_draft> drafts) const {
    detail::check(foretoken_propose_batch(get(), drafts.data(), drafts.size()));
  }
  [[nodiscard]] foretoken_drafter* get() const noexcept { return handle_.get(); }

 private:
  [[nodiscard]] static foretoken_drafter_source source_of(const std::string& model) {
    auto source = defaults<foretoken_drafter_source>();
    source.model = model.c_str();
    return source;
  }

  detail::Handle<foretoken_drafter, foretoken_drafter_free> handle_;
};

}  // namespace v0
}  // namespace foretoken
