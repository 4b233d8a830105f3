// Adds weights to a plan, one method per way in which they are stored. For the sources of this folder, not for callers.
#pragma once

#include <string>
#include <vector>

#include "models/weight_map.h"
#include "models/weight_map_linear.h"

namespace foretoken {

/// Rows [begin, begin + count) of a stored weight.
struct RowRange {
  int64_t begin = 0;
  int64_t count = 0;
};

class WeightAssembly;

class WeightPlanner {
 public:
  WeightPlanner(WeightCatalog& catalog, WeightPlan& plan) : catalog_(catalog), plan_(plan) {}

  [[nodiscard]] WeightCatalog& catalog() { return catalog_; }
  /// Whether what follows belongs to the draft head.
  void set_draft(bool draft) { draft_ = draft; }

  /// A tensor that layers want in F32: stored as F32 or BF16 of shape `stored`, which may differ from `shape` in extents of 1.
  void add_f32(const std::string& name, Tensor& slot, const Shape& stored, const Shape& shape, WeightPart part);
  /// The embedding, F32 or BF16. Throws Unsupported for one that is quantised.
  void add_table(const std::string& base, Tensor& slot, const Shape& shape);
  /// `base`.weight with its scales.
  void add_linear(const std::string& base, LinearWeight& slot, int64_t n, int64_t k, WeightPart part);
  /// Two matrices [n, k] that one kernel reads side by side. Throws FormatError when their formats differ.
  void add_pair(const std::string& base, LinearWeight& slot, const std::string& other_base, LinearWeight& other_slot, int64_t n,
                int64_t k, WeightPart part);
  /// One weight [`experts`, rows, K] from several stored ones, in this order, `row_groups` of equal size to an expert. Throws
  /// FormatError when their formats differ.
  void add_stack(const std::vector<StoredLinear>& parts, LinearWeight& slot, int64_t experts, int64_t row_groups,
                 WeightPart part);
  /// The given rows of a stored weight, in this order, as a weight of their own.
  void add_rows(const StoredLinear& stored, const std::vector<RowRange>& rows, LinearWeight& slot, WeightPart part);
  /// A scale of an attention layer's K or V cache, one F32 value stored as F32 or BF16.
  void add_kv_scale(size_t tensor, Tensor& slot);

 private:
  void add_assembly(const WeightAssembly& assembly, LinearWeight& slot, WeightPart part);
  PlannedTensor& add(const std::string& name, Tensor& slot, DType dtype, const Shape& shape, WeightPart part,
                     WeightFormat format);

  WeightCatalog& catalog_;
  WeightPlan& plan_;
  bool draft_ = false;
};

}  // namespace foretoken
