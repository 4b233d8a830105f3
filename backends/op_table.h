// Which implementations of each operator a device has, best first, and how one is chosen.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/capabilities.h"
#include "backends/command_list.h"

namespace foretoken {

/// One way to run an operator. The `op` pointers are to the operator struct that it was added for.
struct OpImplementation {
  std::string name;
  std::function<Availability(const void* op)> accepts;       // whether it can run these operands
  std::function<void(CommandList&, const void* op)> launch;  // puts the launches on the list
  std::function<size_t(const void* op)> workspace_bytes;     // scratch that `launch` needs for these shapes, or fewer rows
};

class OpTable {
 public:
  /// Appends an implementation of Op; earlier ones are preferred. `launch(cmd, op)` and, both optional, `accepts(op)` ->
  /// Availability and `workspace_bytes(op)` -> size_t. Implementations must not throw on what `accepts` let through.
  template <class Op, class Launch>
  OpTable& add(std::string name, Launch launch, std::function<Availability(const Op&)> accepts = nullptr,
               std::function<size_t(const Op&)> workspace_bytes = nullptr) {
    OpImplementation implementation{.name = std::move(name), .accepts = nullptr, .launch = nullptr, .workspace_bytes = nullptr};
    implementation.launch = [launch = std::move(launch)](CommandList& cmd, const void* op) {
      launch(cmd, *static_cast<const Op*>(op));
    };
    if (accepts)
      implementation.accepts = [accepts = std::move(accepts)](const void* op) { return accepts(*static_cast<const Op*>(op)); };
    if (workspace_bytes) {
      implementation.workspace_bytes = [workspace_bytes = std::move(workspace_bytes)](const void* op) {
        return workspace_bytes(*static_cast<const Op*>(op));
      };
    }
    implementations_[Op::schema().name()].push_back(std::move(implementation));
    return *this;
  }

  /// All implementations of the operator called `op_name`, best first; empty when there is none.
  [[nodiscard]] std::span<const OpImplementation> find(std::string_view op_name) const;

  /// The best implementation that accepts these operands. Throws Unsupported that lists each one's reason.
  [[nodiscard]] const OpImplementation& choose(std::string_view op_name, const void* op) const;

  /// Whether `choose` would find one; each one's reason otherwise.
  [[nodiscard]] Availability availability(std::string_view op_name, const void* op) const;

 private:
  std::map<std::string, std::vector<OpImplementation>, std::less<>> implementations_;
};

}  // namespace foretoken
