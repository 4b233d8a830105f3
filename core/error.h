// Errors: what went wrong, where, what was expected and what was got. Exceptions end an operation; expected outcomes are values.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace foretoken {

enum class ErrorCode {
  kInvalidArgument,  // the caller's value is wrong
  kUnsupported,      // right in itself, but this device or build cannot do it
  kOutOfMemory,
  kDeviceError,   // a device call failed: call, native code and name are in the message
  kFormatError,   // a file is wrong: file, tensor and byte offset are in the message
  kInvalidState,  // the call is not allowed now
  kInternalError  // our bug
};

/// Name of a code as it is printed, for example "format error".
std::string_view to_string(ErrorCode code);

/// The parts of a message. Empty parts are left out; the order printed is `where: what (expected ..., got ...)`.
struct ErrorDetail {
  std::string what{};
  std::string where{};
  std::string expected{};
  std::string got{};
};

/// The one exception type of the library. Thread-safe to copy, like std::runtime_error.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, std::source_location source = std::source_location::current());
  Error(ErrorCode code, const ErrorDetail& detail, std::source_location source = std::source_location::current());

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  /// Where in our source the error was raised; for logs, never part of `what()`.
  [[nodiscard]] const std::source_location& source() const noexcept { return source_; }
  /// The same error with `context: ` in front of its message.
  [[nodiscard]] Error with_context(std::string_view context) const;

 private:
  ErrorCode code_;
  std::source_location source_;
};

/// Runs `fn`; an Error that leaves it gets `context` in front of its message.
template <class Fn>
decltype(auto) with_error_context(std::string_view context, Fn&& fn) {
  try {
    return std::forward<Fn>(fn)();
  } catch (const Error& error) {
    throw error.with_context(context);
  }
}

}  // namespace foretoken
