// The CPU behind a gate, and what it refuses with.
#pragma once

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/integration/generation/test_model.h"
#include "tests/support/gated_device.h"

namespace foretoken::test {

inline std::unique_ptr<GpuBackend> gated_cpu(Gate gate) { return make_gated_backend(open_cpu(), std::move(gate)); }

/// The message of the Unsupported that `fn` must throw.
template <class Fn>
std::string refusal_of(const Fn& fn) {
  try {
    fn();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace foretoken::test
