// The whole engine: see foretoken/engine.h. Every call throws Error.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "foretoken/device.hpp"
#include "foretoken/engine.h"

namespace foretoken {  // NOLINT(modernize-concat-nested-namespaces): formatters do not know the other way
inline namespace v0 {

/// What came of a request.
class Result {
 public:
  explicit Result(foretoken_result* handle)
      : handle_(handle),
        info_(detail::filled<foretoken_result_info>([&](auto* info) { return foretoken_result_get(handle, info); })) {}

  [[nodiscard]] std::span<const int32_t> token_ids() const { return {info_.token_ids, info_.num_token_ids}; }
  [[nodiscard]] std::string_view text() const { return {info_.text, info_.text_length}; }
  [[nodiscard]] foretoken_finish_reason finish_reason() const { return info_.finish_reason; }
  [[nodiscard]] const foretoken_result_info& info() const { return info_; }

 private:
  detail::Handle<foretoken_result, foretoken_result_free> handle_;
  foretoken_result_info info_;
};

/// A checkpoint, its draft head and continuous batching.
class Engine {
 public:
  /// Takes text as it is settled; false cancels the request.
  using TextFn = std::function<bool(std::string_view)>;

  explicit Engine(const Device& device, const foretoken_engine_options& options = defaults<foretoken_engine_options>())
      : handle_(detail::made<foretoken_engine>(
            [&](auto** handle) { return foretoken_engine_load(device.get(), &options, handle); })) {}

  [[nodiscard]] foretoken_engine_info info() const {
    return detail::filled<foretoken_engine_info>([&](auto* info) { return foretoken_engine_get_info(get(), info); });
  }
  [[nodiscard]] foretoken_engine_statistics statistics() const {
    return detail::filled<foretoken_engine_statistics>(
        [&](auto* statistics) { return foretoken_engine_get_statistics(get(), statistics); });
  }
  [[nodiscard]] std::string notes() const {
    const char* notes = nullptr;
    detail::check(foretoken_engine_get_notes(get(), &notes));
    return notes;
  }
  [[nodiscard]] std::vector<int32_t> tokenize(const std::string& text, foretoken_text_kind kind = FORETOKEN_TEXT_PROMPT) const {
    size_t count = 0;
    detail::check(foretoken_engine_tokenize(get(), text.c_str(), kind, nullptr, 0, &count));
    std::vector<int32_t> ids(count);
    detail::check(foretoken_engine_tokenize(get(), text.c_str(), kind, ids.data(), ids.size(), &count));
    return ids;
  }

  int64_t submit(std::span<const int32_t> prompt, const foretoken_request& request = defaults<foretoken_request>()) const {
    int64_t id = 0;
    detail::check(foretoken_engine_submit(get(), prompt.data(), prompt.size(), &request, &id));
    return id;
  }
  /// False when nothing is left to do.
  bool step() const {
    int32_t has_more = 0;
    detail::check(foretoken_engine_step(get(), &has_more));
    return has_more != 0;
  }
  void cancel(int64_t request_id) const { detail::check(foretoken_engine_cancel(get(), request_id)); }
  [[nodiscard]] bool is_finished(int64_t request_id) const {
    int32_t is_finished = 0;
    detail::check(foretoken_engine_is_finished(get(), request_id, &is_finished));
    return is_finished != 0;
  }
  [[nodiscard]] Result take_result(int64_t request_id) const {
    return Result(
        detail::made<foretoken_result>([&](auto** handle) { return foretoken_engine_take_result(get(), request_id, handle); }));
  }
  /// One request from prompt to result. What `on_text` throws ends the request and is thrown again; with one, the callbacks of
  /// `request` are not used.
  [[nodiscard]] Result generate(std::span<const int32_t> prompt, foretoken_request request = defaults<foretoken_request>(),
                                const TextFn& on_text = {}) const {
    Listener listener{.on_text = on_text, .error = nullptr};
    if (on_text) {
      request.on_token = nullptr;
      request.on_text = &Listener::take;
      request.user = &listener;
    }
    Result result(detail::made<foretoken_result>(
        [&](auto** handle) { return foretoken_engine_generate(get(), prompt.data(), prompt.size(), &request, handle); }));
    if (listener.error) std::rethrow_exception(listener.error);
    return result;
  }
  [[nodiscard]] foretoken_engine* get() const noexcept { return handle_.get(); }

 private:
  struct Listener {
    const TextFn& on_text;
    std::exception_ptr error;

    static foretoken_verdict take(void* user, const char* text, size_t length) noexcept {
      auto& self = *static_cast<Listener*>(user);
      try {
        return self.on_text({text, length}) ? FORETOKEN_GO_ON : FORETOKEN_CANCEL;
      } catch (...) {
        self.error = std::current_exception();
        return FORETOKEN_CANCEL;
      }
    }
  };

  detail::Handle<foretoken_engine, foretoken_engine_free> handle_;
};

}  // namespace v0
}  // namespace foretoken
