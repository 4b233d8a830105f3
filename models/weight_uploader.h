// Planned tensors filled from their source. For the sources of this folder, not for callers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backends/backend.h"
#include "models/weight_map.h"
#include "models/weight_source.h"

namespace foretoken {

/// Throws Unsupported for formats that this device has no kernels for.
void check_formats(const GpuBackend& backend, const WeightSource& source, const std::vector<PlannedTensor>& tensors);

/// The tensor as it lies in device memory already, when the source has all of it there as the plan wants it. Absent otherwise.
[[nodiscard]] Tensor resident_view(const WeightSource& source, const PlannedTensor& planned);

/// Fills tensors in the order in which the source reads fastest. Source, plan and the memory that the slots view must outlive it.
class WeightUploader {
 public:
  WeightUploader(GpuBackend& backend, const WeightSource& source, const LoadProgressFn& progress)
      : source_(source), progress_(progress), stream_(backend.create_stream()) {}

  /// The slot of `planned` views memory that is to be filled.
  void fill(const PlannedTensor& planned);
  /// The slot of `planned` views memory of the source: only its values are looked at.
  void check(const PlannedTensor& planned);
  /// Does it all and waits for the device. Throws FormatError for values that no kernel can compute with.
  void run();

 private:
  struct Job {
    const PlannedTensor* planned = nullptr;
    const WeightPiece* piece = nullptr;
    bool is_in_place = false;
  };

  void report(uint64_t bytes);
  [[nodiscard]] bool has_checks(const Job& job) const;
  void check(const Job& job, uint64_t begin, std::span<const std::byte> bytes) const;
  [[nodiscard]] std::optional<RandomRecipe> recipe_for(const Job& job) const;
  void generate(const Job& job, const RandomRecipe& recipe);
  void upload(const Job& job);
  void check_resident(const Job& job);
  void copy_resident(const Job& job, const Tensor& resident);
  void upload_changed(const Job& job);

  const WeightSource& source_;
  const LoadProgressFn& progress_;
  std::unique_ptr<Stream> stream_;
  std::vector<Job> jobs_;
  std::vector<std::byte> scratch_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

}  // namespace foretoken
