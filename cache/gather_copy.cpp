#include "cache/gather_copy.h"

#include <string>

#include "core/error.h"

namespace foretoken {
namespace {

void check_sizes(std::span<const BufferView> pieces, const BufferView& whole) {
  const size_t bytes = total_bytes(pieces);
  if (bytes == whole.bytes) return;
  throw Error(ErrorCode::kInvalidArgument,
              {.what = "bytes of the pieces of a copy", .expected = std::to_string(whole.bytes), .got = std::to_string(bytes)});
}

}  // namespace

size_t total_bytes(std::span<const BufferView> pieces) {
  size_t bytes = 0;
  for (const BufferView& piece : pieces) bytes += piece.bytes;
  return bytes;
}

void gather(CommandList& cmd, std::span<const BufferView> pieces, const BufferView& whole) {
  check_sizes(pieces, whole);
  size_t offset = 0;
  for (const BufferView& piece : pieces) {
    cmd.copy(piece, whole.slice(offset, piece.bytes));
    offset += piece.bytes;
  }
}

void scatter(CommandList& cmd, const BufferView& whole, std::span<const BufferView> pieces) {
  check_sizes(pieces, whole);
  size_t offset = 0;
  for (const BufferView& piece : pieces) {
    cmd.copy(whole.slice(offset, piece.bytes), piece);
    offset += piece.bytes;
  }
}

}  // namespace foretoken
