// What every command list checks of a launch, and what none allows while it records.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "backends/kernel.h"
#include "core/error.h"

namespace foretoken {

/// The kernel as the backend's own `Code`. Throws InvalidArgument for a kernel of another backend, and for parameters of another
/// size.
template <class Code>
const Code& checked_kernel(const KernelCode& code, std::span<const std::byte> params) {
  const auto* kernel = dynamic_cast<const Code*>(&code);
  if (kernel == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "launch of kernel " + code.name() + ", which is of another backend");
  }
  if (params.size() != code.params_bytes()) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "launch of kernel " + code.name() + " with parameters of another size",
                                              .expected = std::to_string(code.params_bytes()) + " bytes",
                                              .got = std::to_string(params.size()) + " bytes"});
  }
  return *kernel;
}

/// Base of the command lists of one backend, `List`. While one that records lives, its thread may ask that backend for nothing
/// that needs the host.
template <class List>
class RefusesWhileRecording {
 public:
  /// Throws InvalidState when this thread records a Program; `call` names what is refused.
  static void refuse_while_recording(std::string_view call) {
    if (recordings() == 0) return;
    throw Error(ErrorCode::kInvalidState, std::string(call) + " while a Program is recorded: it needs the host");
  }

 private:
  friend List;
  explicit RefusesWhileRecording(bool records) : records_(records) {
    if (records_) ++recordings();
  }
  ~RefusesWhileRecording() {
    if (records_) --recordings();
  }
  RefusesWhileRecording(const RefusesWhileRecording&) = delete;
  RefusesWhileRecording& operator=(const RefusesWhileRecording&) = delete;

  static int& recordings() {
    thread_local int of_this_thread = 0;
    return of_this_thread;
  }

  bool records_;
};

}  // namespace foretoken
