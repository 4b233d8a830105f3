#include "backends/view_checks.h"

#include <cstdint>
#include <string>

#include "core/error.h"

namespace foretoken {

void check_view(const BufferView& view, std::string_view what) {
  if (view.is_null() && view.bytes == 0) return;
  const size_t available = view.is_null() ? 0 : view.buffer->bytes();
  if (view.offset > available || view.bytes > available - view.offset) {
    throw Error(ErrorCode::kInvalidArgument,
                {.what = std::string(what) + (view.is_null() ? " is a null view" : " reaches past the end of its buffer"),
                 .expected = "at most " + std::to_string(available) + " bytes",
                 .got = std::to_string(view.offset) + " + " + std::to_string(view.bytes)});
  }
}

void check_equal_sizes(size_t source_bytes, size_t destination_bytes, std::string_view what) {
  if (source_bytes == destination_bytes) return;
  throw Error(ErrorCode::kInvalidArgument, {.what = std::string(what) + ": source and destination differ in size",
                                            .expected = std::to_string(source_bytes) + " bytes",
                                            .got = std::to_string(destination_bytes) + " bytes"});
}

void check_copy(const BufferView& source, const BufferView& destination) {
  check_view(source, "copy: source");
  check_view(destination, "copy: destination");
  check_equal_sizes(source.bytes, destination.bytes, "copy");
  if (source.bytes == 0 || !source.overlaps(destination)) return;
  throw Error(ErrorCode::kInvalidArgument, {.what = "copy: source and destination overlap",
                                            .expected = "separate ranges",
                                            .got = std::to_string(source.bytes) + " bytes from offset " +
                                                   std::to_string(source.offset) + " to " + std::to_string(destination.offset)});
}

void check_fill(const BufferView& destination) {
  check_view(destination, "fill: destination");
  if (destination.bytes % sizeof(uint32_t) == 0) return;
  throw Error(ErrorCode::kInvalidArgument,
              {.what = "fill", .expected = "a multiple of 4 bytes", .got = std::to_string(destination.bytes) + " bytes"});
}

uint64_t checked_workspace(std::string_view op, const Tensor& workspace, size_t bytes) {
  const size_t got = workspace ? workspace.view().bytes : 0;
  if (got < bytes) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "the workspace is too small",
                                              .where = std::string(op),
                                              .expected = std::to_string(bytes) + " bytes",
                                              .got = std::to_string(got) + " bytes"});
  }
  return workspace.address();
}

}  // namespace foretoken
