// An ordered queue of work on one device.
#pragma once

#include <cstddef>
#include <span>

#include "backends/command_list.h"
#include "backends/event.h"
#include "backends/program.h"

namespace foretoken {

/// Work runs in the order of the calls. One thread at a time may use a stream. Faults of earlier work surface, as DeviceError
/// with the label of the Program, at the next call that waits.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  /// Runs what `fn` puts on the list, in immediate mode.
  virtual void run(const RecordFn& fn) = 0;
  /// Replays a Program of this backend.
  virtual void run(const Program& program) = 0;
  /// Host to device. `source` may be reused as soon as the call returns. Sizes must be equal (InvalidArgument).
  virtual void upload(std::span<const std::byte> source, const BufferView& destination) = 0;
  /// Device to host; waits until the bytes are there.
  virtual void download(const BufferView& source, std::span<std::byte> destination) = 0;
  /// Device to device.
  virtual void copy(const BufferView& source, const BufferView& destination) = 0;
  virtual void record(Event& event) = 0;
  /// Work after this call waits for `event`, without stopping the host.
  virtual void wait(Event& event) = 0;
  /// Waits for everything. Throws DeviceError when something failed.
  virtual void synchronize() = 0;
};

}  // namespace foretoken
