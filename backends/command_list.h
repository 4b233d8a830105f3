// All one can do to a device. Whoever made the list decided whether its launches run at once or are recorded for replay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "core/op_schema.h"

namespace foretoken {

class KernelCode;
class OpTable;
struct Capabilities;

/// Work groups of a launch. On the CPU: work items, spread over the threads.
struct Grid {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
  uint32_t group_memory = 0;  // bytes that a work group shares, beyond what its kernel declares; GPUs only
};

class CommandList {
 public:
  CommandList() = default;
  CommandList(const CommandList&) = delete;
  CommandList& operator=(const CommandList&) = delete;
  virtual ~CommandList() = default;

  /// Runs a kernel. Reached through Kernel<Params> only. `params` are copied; hazards against earlier launches come from
  /// `accesses`.
  virtual void launch(const KernelCode& code, Grid grid, std::span<const std::byte> params, std::span<const Access> accesses) = 0;
  /// Copies device memory. Sizes must be equal and the ranges must not overlap (InvalidArgument).
  virtual void copy(const BufferView& source, const BufferView& destination) = 0;
  /// Fills with a 32-bit pattern. The size must be a multiple of 4 (InvalidArgument).
  virtual void fill(const BufferView& destination, uint32_t pattern) = 0;
  /// Names what follows, for errors and traces.
  virtual void label(std::string_view text) = 0;

  /// Whether launches are kept for replay. A recording list refuses (InvalidState) whatever needs the host.
  [[nodiscard]] virtual bool is_recording() const = 0;
  /// The operators that can run here, best implementation first.
  [[nodiscard]] virtual const OpTable& ops() const = 0;
  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;
};

/// What a caller puts on a list: layers' forward functions, mostly.
using RecordFn = std::function<void(CommandList&)>;

}  // namespace foretoken
