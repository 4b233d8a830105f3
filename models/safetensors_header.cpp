// The header is read as a stream of JSON events, so that a hostile one of 100 MB costs no more memory than its tensor list.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/error.h"
#include "models/safetensors.h"

namespace foretoken {
namespace {

constexpr uint64_t kHeaderOffset = 8;

/// Bits of an element for every dtype of the format.
constexpr std::array<std::pair<std::string_view, unsigned>, 20> kFormatDtypes{{
    {"BOOL", 8}, {"U8", 8},   {"I8", 8},    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"I16", 16},
    {"U16", 16}, {"F16", 16}, {"BF16", 16}, {"I32", 32},    {"U32", 32},    {"F32", 32},    {"I64", 64},
    {"U64", 64}, {"F64", 64}, {"C64", 64},  {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},
}};

/// Builds the entries from events; every handler returns true or throws, so nlohmann never sees a refusal.
class HeaderHandler {
 public:
  HeaderHandler(const std::string& origin, SafetensorsHeader& header) : origin_(origin), header_(header) {}

  bool null() { return unexpected("null"); }
  bool boolean(bool) { return unexpected("a boolean"); }
  bool number_integer(int64_t value) { return unexpected(std::to_string(value)); }
  bool number_float(double, const std::string& text) { return unexpected(text); }
  bool binary(std::vector<uint8_t>&) { return unexpected("binary data"); }

  bool number_unsigned(uint64_t value) {
    if (state_ == State::kShape) {
      if (value > INT64_MAX) fail("an extent of `shape` is too large", "at most 2^63 - 1", std::to_string(value));
      if (extents_.size() == Shape::kMaxRank) fail("`shape` has too many extents", "at most 5", "more");
      extents_.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (state_ == State::kOffsets) {
      if (num_offsets_ == 2) fail("`data_offsets` has too many numbers", "[begin, end]", "more");
      offsets_[num_offsets_++] = value;
      return true;
    }
    return unexpected(std::to_string(value));
  }

  bool string(std::string& value) {
    if (state_ == State::kMetadata) {
      header_.metadata[key_] = value;
    } else if (state_ == State::kTensor && key_ == "dtype") {
      entry_.dtype_name = value;
    } else {
      return unexpected("a string");
    }
    return true;
  }

  bool start_object(size_t) {
    if (state_ == State::kStart) {
      state_ = State::kTop;
    } else if (state_ == State::kTop && key_ == "__metadata__") {
      enter(State::kMetadata);
    } else if (state_ == State::kTop) {
      enter(State::kTensor);
      entry_ = {};
      entry_.name = key_;
      extents_.clear();
      num_offsets_ = 0;
    } else {
      return unexpected("an object");
    }
    return true;
  }

  bool key(std::string& value) {
    if (state_ == State::kTensor && value != "dtype" && value != "shape" && value != "data_offsets") {
      fail("unknown member of a tensor", "dtype, shape, data_offsets", value);
    }
    key_ = value;
    if (!(state_ == State::kTop ? names_ : members_).insert(value).second) {
      fail(state_ == State::kTop ? "tensor name appears twice" : "member appears twice", "unique keys", value);
    }
    return true;
  }

  bool end_object() {
    if (state_ == State::kTensor) {
      if (members_.size() != 3) fail("tensor lacks a member", "dtype, shape, data_offsets", std::to_string(members_.size()));
      if (num_offsets_ != 2) fail("`data_offsets` is too short", "[begin, end]", std::to_string(num_offsets_) + " numbers");
      finish_entry();
    }
    state_ = State::kTop;
    return true;
  }

  bool start_array(size_t) {
    if (state_ == State::kTensor && key_ == "shape") {
      state_ = State::kShape;
    } else if (state_ == State::kTensor && key_ == "data_offsets") {
      state_ = State::kOffsets;
    } else {
      return unexpected("an array");
    }
    return true;
  }

  bool end_array() {
    state_ = State::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    std::string_view reason = error.what();
    if (const size_t bracket = reason.find("] "); bracket != std::string_view::npos) reason.remove_prefix(bracket + 2);
    throw Error(ErrorCode::kFormatError, {.what = "the header is not valid JSON near byte " +
                                                  std::to_string(kHeaderOffset + position) + ": " + std::string(reason),
                                          .where = origin_});
  }

 private:
  enum class State : uint8_t { kStart, kTop, kMetadata, kTensor, kShape, kOffsets };

  void enter(State state) {
    state_ = state;
    members_.clear();
  }

  [[noreturn]] void fail(const std::string& what, const std::string& expected, const std::string& got) const {
    const bool in_tensor = state_ == State::kTensor || state_ == State::kShape || state_ == State::kOffsets;
    const std::string where = in_tensor ? origin_ + ": tensor " + entry_.name : origin_;
    throw Error(ErrorCode::kFormatError, {.what = what, .where = where, .expected = expected, .got = got});
  }

  [[noreturn]] bool unexpected(const std::string& got) const {
    switch (state_) {
      case State::kStart: fail("the header is not a JSON object", "an object", got);
      case State::kTop: fail("header member " + key_ + " has the wrong type", "an object", got);
      case State::kMetadata: fail("__metadata__ member " + key_ + " has the wrong type", "a string", got);
      case State::kTensor: fail("`" + key_ + "` has the wrong type", key_ == "dtype" ? "a string" : "an array", got);
      case State::kShape:
      case State::kOffsets: fail("`" + key_ + "` holds something else than sizes", "non-negative integers", got);
    }
    fail("unexpected header content", "", got);
  }

  /// Checks the tensor on its own; `file_offset` stays relative to the data until the header is complete.
  void finish_entry() {
    const auto known = std::ranges::find(kFormatDtypes, entry_.dtype_name, &std::pair<std::string_view, unsigned>::first);
    if (known == kFormatDtypes.end()) fail("unknown dtype", "a dtype of the safetensors format", entry_.dtype_name);
    entry_.dtype = parse_safetensors_dtype(entry_.dtype_name);
    entry_.shape = Shape(std::span<const int64_t>(extents_));
    uint64_t bits = known->second;
    for (const int64_t extent : extents_) {
      if (__builtin_mul_overflow(bits, static_cast<uint64_t>(extent), &bits)) {
        fail("the size of the shape overflows", "fewer than 2^64 bits", entry_.shape.to_string());
      }
    }
    if (offsets_[1] < offsets_[0]) {
      fail("`data_offsets` run backwards", "begin <= end", std::to_string(offsets_[0]) + ", " + std::to_string(offsets_[1]));
    }
    entry_.file_offset = offsets_[0];
    entry_.bytes = offsets_[1] - offsets_[0];
    if (bits % 8 != 0 || bits / 8 != entry_.bytes) {
      fail("`data_offsets` do not match the shape (data offset " + std::to_string(offsets_[0]) + ")",
           std::to_string(bits / 8) + " bytes for " + entry_.dtype_name + " " + entry_.shape.to_string(),
           std::to_string(entry_.bytes));
    }
    header_.entries.push_back(std::move(entry_));
  }

  const std::string& origin_;
  SafetensorsHeader& header_;
  State state_ = State::kStart;
  std::string key_;
  std::set<std::string> names_;
  std::set<std::string> members_;
  SafetensorsEntry entry_;
  std::vector<int64_t> extents_;
  std::array<uint64_t, 2> offsets_{};
  size_t num_offsets_ = 0;
};

/// Puts the entries in the order of their bytes, turns data offsets into file offsets, and checks that they tile the file.
void check_layout(std::vector<SafetensorsEntry>& entries, uint64_t data_begin, uint64_t file_bytes, const std::string& origin) {
  std::ranges::sort(entries, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.file_offset, a.bytes, a.name) < std::tie(b.file_offset, b.bytes, b.name);
  });
  const uint64_t data_bytes = file_bytes - data_begin;
  uint64_t end = 0;
  for (SafetensorsEntry& entry : entries) {
    if (entry.file_offset > data_bytes || entry.bytes > data_bytes - entry.file_offset) {
      throw Error(ErrorCode::kFormatError,
                  {.what = "tensor reaches past the end of the file",
                   .where = origin + ": tensor " + entry.name,
                   .expected = "at most " + std::to_string(data_bytes) + " data bytes",
                   .got = "data bytes " + std::to_string(entry.file_offset) + " + " + std::to_string(entry.bytes)});
    }
    if (entry.file_offset != end) {
      throw Error(ErrorCode::kFormatError,
                  {.what = entry.file_offset < end ? "tensor overlaps the one before it" : "unused bytes before a tensor",
                   .where = origin + ": tensor " + entry.name,
                   .expected = "byte offset " + std::to_string(data_begin + end),
                   .got = std::to_string(data_begin + entry.file_offset)});
    }
    end += entry.bytes;
    entry.file_offset += data_begin;
  }
  if (end != data_bytes) {
    throw Error(ErrorCode::kFormatError, {.what = "bytes after the last tensor",
                                          .where = origin,
                                          .expected = "a file of " + std::to_string(data_begin + end) + " bytes",
                                          .got = std::to_string(file_bytes)});
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json_text, uint64_t file_bytes, const std::string& origin) {
  SafetensorsHeader header;
  HeaderHandler handler(origin, header);
  nlohmann::json::sax_parse(json_text, &handler);
  check_layout(header.entries, kHeaderOffset + json_text.size(), file_bytes, origin);
  return header;
}

}  // namespace foretoken
