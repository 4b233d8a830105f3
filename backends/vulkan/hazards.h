// Which launches need a barrier between them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/op_schema.h"

namespace foretoken::vulkan {

/// What the launches since the last barrier have touched.
class Hazards {
 public:
  /// Whether a launch with these accesses must wait for an earlier one: it touches what one wrote, or writes what one read. Then
  /// everything before counts as done.
  [[nodiscard]] bool add(std::span<const Access> accesses);
  void clear() { touched_.clear(); }

 private:
  struct Range {
    uint64_t begin;
    uint64_t end;
    bool written;
  };

  std::vector<Range> touched_;
};

}  // namespace foretoken::vulkan
