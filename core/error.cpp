#include "core/error.h"

namespace foretoken {
namespace {

std::string format_detail(const ErrorDetail& detail) {
  std::string message;
  if (!detail.where.empty()) message += detail.where + ": ";
  message += detail.what;
  if (detail.expected.empty() && detail.got.empty()) return message;
  message += " (";
  if (!detail.expected.empty()) message += "expected " + detail.expected;
  if (!detail.expected.empty() && !detail.got.empty()) message += ", ";
  if (!detail.got.empty()) message += "got " + detail.got;
  return message + ")";
}

/// Messages quote names out of files: control characters, which could end a C string or drive a terminal, become \xNN.
std::string printable(const std::string& message) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  text.reserve(message.size());
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    const bool shows = (byte >= 0x20 && byte != 0x7f) || c == '\n' || c == '\t';
    if (shows) {
      text += c;
    } else {
      text += {'\\', 'x', kHex[byte >> 4U], kHex[byte & 0xfU]};
    }
  }
  return text;
}

}  // namespace

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid argument";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kOutOfMemory: return "out of memory";
    case ErrorCode::kDeviceError: return "device error";
    case ErrorCode::kFormatError: return "format error";
    case ErrorCode::kInvalidState: return "invalid state";
    case ErrorCode::kInternalError: return "internal error";
  }
  return "unknown error";
}

Error::Error(ErrorCode code, const std::string& message, std::source_location source)
    : std::runtime_error(printable(message)), code_(code), source_(source) {}

Error::Error(ErrorCode code, const ErrorDetail& detail, std::source_location source)
    : Error(code, format_detail(detail), source) {}

Error Error::with_context(std::string_view context) const { return Error(code_, std::string(context) + ": " + what(), source_); }

}  // namespace foretoken
