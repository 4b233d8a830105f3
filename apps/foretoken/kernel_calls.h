// The calls that `bench kernels` times: one operator over several copies of its weights, by each implementation of the device.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/foretoken/kernel_shape.h"
#include "backends/backend.h"
#include "core/linear_weight.h"
#include "core/ops/moe.h"

namespace foretoken::cli {

/// One copy of the weights of an operator.
struct KernelWeights {
  LinearWeight first;   // the weight, gate, or stacked gate and up
  LinearWeight second;  // up, or stacked down; absent for the others
};

/// One implementation over all copies of the weights. For moe its name is that of both projections, "mma+exact" where they
/// differ.
struct KernelVariant {
  std::string name;
  bool rounds_activations = false;                         // to BF16, as only prefill may
  std::vector<std::function<void(CommandList&)>> calls{};  // in the order in which a Program makes them
};

/// Operands over random activations and the variants that take them; owns all but the weights.
class KernelCalls {
 public:
  /// Every implementation that takes the operands, or `implementation` alone where that is not empty: with exact activations
  /// where it can, else, for those that only prefill uses, with activations that may be rounded. `weights` must outlive it. Work
  /// on `stream` is under way when it returns. Throws OutOfMemory.
  KernelCalls(GpuBackend& backend, Stream& stream, const KernelShape& shape, const std::vector<KernelWeights>& weights,
              int64_t rows, DType activations, std::string_view implementation);

  /// Best first, as the device's table has them; those that round activations come last.
  [[nodiscard]] const std::vector<KernelVariant>& variants() const { return variants_; }
  /// Why there is no variant, or others are missing: each implementation's reason.
  [[nodiscard]] const std::string& reasons() const { return reasons_; }
  /// Of the weights and scales that one call reads.
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  template <class Op>
  struct Candidate;
  struct Routing;

  void add_linear();
  void add_linear_argmax();
  void add_linear_silu_mul();
  void add_moe(const KernelShape& shape);
  [[nodiscard]] Routing make_routing(const KernelShape& shape, int64_t first);
  void add_moe_variant(Candidate<MoeExpertsUp> up, Candidate<MoeExpertsDown> down, const std::vector<Routing>& routings);
  template <class Op, class SetWeights>
  void add_variants(const Op& op, const SetWeights& set_weights);
  template <class Op>
  [[nodiscard]] std::vector<Candidate<Op>> candidates(const Op& op);

  [[nodiscard]] Tensor allocate(DType dtype, const Shape& shape);
  [[nodiscard]] Tensor input(const Shape& shape);
  template <class T>
  [[nodiscard]] Tensor upload(DType dtype, const Shape& shape, const std::vector<T>& values);

  GpuBackend& backend_;
  Stream& stream_;
  const std::vector<KernelWeights>& weights_;
  int64_t rows_;
  DType activations_;
  std::string implementation_;
  std::vector<Buffer> memory_;
  std::vector<KernelVariant> variants_;
  std::string reasons_;
  uint64_t bytes_ = 0;
};

}  // namespace foretoken::cli
