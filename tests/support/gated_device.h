// A device that lacks things: another backend behind filters, for tests of what is decided when a format or a kernel is missing.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "backends/backend.h"

namespace foretoken::test {

/// What is taken away from the device underneath.
struct Gate {
  std::string device_name = "gated device";
  std::set<WeightFormat> not_storable{};     // no kernel reads them
  std::set<WeightFormat> one_row_only{};     // kernels of the linear operators take one row
  std::set<WeightFormat> no_fused_argmax{};  // no LinearArgmax
  std::set<std::string> no_operator{};       // names of operators without any implementation
  bool row_by_row = false;                   // registers add_row_by_row and add_linear_group_parts after the rest
};

/// The variants that decisions are tested with.
[[nodiscard]] Gate without_nvfp4();
[[nodiscard]] Gate nvfp4_one_row_only();
[[nodiscard]] Gate fp8_only();  // BF16 too, which norms, embeddings and fc need; neither F32 nor NVFP4
[[nodiscard]] Gate stores_nothing();
[[nodiscard]] Gate without_fused_argmax(WeightFormat format);

/// The reason that the device gives for a format that is not storable.
[[nodiscard]] std::string gate_reason(WeightFormat format);

/// `inner` without what `gate` takes away. Memory, streams, events and Programs are those of `inner`.
[[nodiscard]] std::unique_ptr<GpuBackend> make_gated_backend(std::unique_ptr<GpuBackend> inner, Gate gate);

}  // namespace foretoken::test
