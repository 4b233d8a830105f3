// What every command list checks of a launch.
#pragma once

#include <cstddef>
#include <span>
#include <string>

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

}  // namespace foretoken
