// How fast a device reads its memory: what decode speed is held against.
#pragma once

#include <string>
#include <vector>

#include "backends/backend.h"

namespace foretoken::cli {

struct ReadBandwidth {
  double bytes_per_second = 0.0;
  std::string method;  // who read how much, for people
};

/// The median of several measurements of one device, one at least; the method says of how many.
[[nodiscard]] ReadBandwidth median_bandwidth(const std::vector<ReadBandwidth>& measured);

/// On the CPU what bandwidth.h measures with the backend's threads; elsewhere the best of several passes of the operator abs_max
/// over 2 GiB. Throws OutOfMemory; Unsupported when the device lacks that operator.
[[nodiscard]] ReadBandwidth measure_read_bandwidth(GpuBackend& backend);

}  // namespace foretoken::cli
