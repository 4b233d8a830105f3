#include "speculative/c_api/boundary.h"

#include <array>
#include <exception>
#include <new>
#include <span>

#include "speculative/c_api/handles.h"

namespace foretoken::c_api {
namespace {

thread_local std::string last_error;

/// Must not throw: where there is no memory for the message, it stays that of the call before.
void remember(const char* message) noexcept {
  try {
    last_error = message;
  } catch (...) {
    last_error.clear();
  }
}

foretoken_status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return FORETOKEN_INVALID_ARGUMENT;
    case ErrorCode::kUnsupported: return FORETOKEN_UNSUPPORTED;
    case ErrorCode::kOutOfMemory: return FORETOKEN_OUT_OF_MEMORY;
    case ErrorCode::kDeviceError: return FORETOKEN_DEVICE_ERROR;
    case ErrorCode::kFormatError: return FORETOKEN_FORMAT_ERROR;
    case ErrorCode::kInvalidState: return FORETOKEN_INVALID_STATE;
    case ErrorCode::kInternalError: return FORETOKEN_INTERNAL_ERROR;
  }
  return FORETOKEN_INTERNAL_ERROR;
}

}  // namespace

foretoken_status report_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    remember(error.what());
    return status_of(error.code());
  } catch (const InvalidHandle& error) {
    remember(error.what());
    return FORETOKEN_INVALID_HANDLE;
  } catch (const std::bad_alloc&) {
    remember("the host has no memory left");
    return FORETOKEN_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    remember(error.what());
    return FORETOKEN_INTERNAL_ERROR;
  } catch (...) {
    remember("an exception of an unknown type");
    return FORETOKEN_INTERNAL_ERROR;
  }
}

void fail_argument(std::string_view what, std::string_view expected, std::string_view got) {
  throw Error(ErrorCode::kInvalidArgument,
              {.what = std::string(what), .where = "", .expected = std::string(expected), .got = std::string(got)});
}

int64_t require_range(std::string_view name, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high)
    fail_argument(name, std::to_string(low) + " .. " + std::to_string(high), std::to_string(value));
  return value;
}

void check_struct(const void* given, size_t size, size_t known, std::string_view name) {
  if (size < sizeof(size_t) || size > (size_t{1} << 16)) {
    fail_argument(std::string(name) + ".struct_size", std::to_string(known) + ", the size of the structure",
                  std::to_string(size));
  }
  if (given == nullptr || size <= known) return;
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(given), size);
  if (std::ranges::any_of(bytes.subspan(known), [](std::byte byte) { return byte != std::byte{0}; })) {
    throw Error(ErrorCode::kUnsupported, std::string(name) + " sets options that this version of the library does not know");
  }
}

DType dtype_of(foretoken_dtype dtype, std::string_view name) {
  switch (dtype) {
    case FORETOKEN_F32: return DType::kF32;
    case FORETOKEN_BF16: return DType::kBF16;
    case FORETOKEN_E4M3: return DType::kE4M3;
    case FORETOKEN_E2M1: return DType::kE2M1;
    case FORETOKEN_I32: return DType::kI32;
    case FORETOKEN_I64: return DType::kI64;
    case FORETOKEN_U8: return DType::kU8;
    case FORETOKEN_DTYPE_DEFAULT: break;
  }
  fail_argument(name, "a foretoken_dtype", std::to_string(static_cast<int>(dtype)));
}

std::optional<DType> optional_dtype(foretoken_dtype dtype, std::string_view name) {
  return dtype == FORETOKEN_DTYPE_DEFAULT ? std::nullopt : std::optional(dtype_of(dtype, name));
}

foretoken_dtype dtype_for(DType dtype) {
  switch (dtype) {
    case DType::kF32: return FORETOKEN_F32;
    case DType::kBF16: return FORETOKEN_BF16;
    case DType::kE4M3: return FORETOKEN_E4M3;
    case DType::kE2M1: return FORETOKEN_E2M1;
    case DType::kI32: return FORETOKEN_I32;
    case DType::kI64: return FORETOKEN_I64;
    case DType::kU8: return FORETOKEN_U8;
  }
  return FORETOKEN_DTYPE_DEFAULT;
}

}  // namespace foretoken::c_api

const char* foretoken_last_error() { return foretoken::c_api::last_error.c_str(); }

const char* foretoken_status_name(foretoken_status status) {
  static constexpr std::array kNames{"ok",           "invalid argument", "unsupported",    "out of memory", "device error",
                                     "format error", "invalid state",    "invalid handle", "internal error"};
  const auto index = static_cast<size_t>(status);
  return index < kNames.size() ? kNames[index] : "unknown status";
}
