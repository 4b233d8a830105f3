// A recording: the launches of a function, captured into a graph.
#pragma once

#include "backends/gpu/host/command_list.h"
#include "backends/gpu/host/handles.h"
#include "backends/program.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {

class RuntimeProgram final : public ProgramBody {
 public:
  /// Captures what `function` puts on a list of `context`. The current device must be the backend's. Throws what `function`
  /// throws, and DeviceError when the runtime cannot capture or build the graph; nothing is left behind then.
  RuntimeProgram(std::string label, RecordFn function, const ListContext& context);

  [[nodiscard]] size_t num_launches() const override { return num_launches_; }
  /// Puts one replay on `stream`.
  void replay(runtime::Stream stream) const;

 private:
  GraphExecHandle exec_;  // null for an empty recording
  size_t num_launches_ = 0;
};

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
