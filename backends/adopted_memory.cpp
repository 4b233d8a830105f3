#include "backends/adopted_memory.h"

#include <limits>
#include <string>

#include "backends/native.h"
#include "core/error.h"

namespace foretoken {

void check_adoptable(const NativeMemory& memory, DeviceAddress address) {
  const auto refuse = [](std::string expected, std::string got) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "memory to adopt", .expected = std::move(expected), .got = std::move(got)});
  };
  if (memory.handle == 0) refuse("a handle", "null");
  if (memory.bytes == 0) refuse("at least one byte", "none");
  if (address % kNativeAlignment != 0) {
    refuse("a start at a multiple of " + std::to_string(kNativeAlignment) + " bytes",
           std::to_string(address % kNativeAlignment) + " bytes past one");
  }
  constexpr uint64_t kLast = std::numeric_limits<uint64_t>::max();
  if (memory.offset > kLast - memory.bytes || address > kLast - memory.bytes) {
    refuse("bytes that have addresses", std::to_string(memory.bytes) + " bytes");
  }
}

}  // namespace foretoken
