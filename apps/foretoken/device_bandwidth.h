// How fast a device reads its memory: what decode speed is held against.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/foretoken/bandwidth.h"
#include "backends/backend.h"

namespace foretoken::cli {

struct ReadBandwidth {
  double bytes_per_second = 0.0;
  std::string method;  // who read how much, for people
};

/// Measures one device, again and again: a CPU by what bandwidth.h does with the backend's threads, others by the best of several
/// passes of the operator abs_max over 2 GiB. `backend` must outlive it.
class BandwidthMeter {
 public:
  /// Throws OutOfMemory.
  explicit BandwidthMeter(GpuBackend& backend);

  /// Whether measuring needs memory of the device; on a CPU the host's memory is held while this lives.
  [[nodiscard]] bool takes_device_memory() const { return !host_.has_value(); }
  /// Throws OutOfMemory; Unsupported when the device lacks the operator.
  [[nodiscard]] ReadBandwidth measure();

 private:
  GpuBackend& backend_;
  std::optional<ReadMeter> host_;
};

/// The median of several measurements of one device, one at least; the method says of how many.
[[nodiscard]] ReadBandwidth median_bandwidth(const std::vector<ReadBandwidth>& measured);

}  // namespace foretoken::cli
