// Holds the memory after a run on a device against the memory after the reference ran on the same contents.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "backends/conformance/operand_set.h"
#include "core/op_schema.h"

namespace foretoken {

/// Memory of all operands before a run and after it.
struct RunImages {
  const std::vector<ByteImage>& initial;
  const std::vector<ByteImage>& expected;
  const std::vector<ByteImage>& actual;
};

/// The operator under test, with its operands in host memory.
struct ComparedOp {
  const OpSchema& schema;
  std::span<const Tensor* const> operands;
  const OperandSet& memory;
  double tolerance_override;  // 0: the schema's
  /// Whether a different id is as good within the schema's tolerance.
  std::function<bool(const std::string& operand, int64_t element, int64_t got)> accepts_id;
};

struct Comparison {
  std::string failure;  // empty: agrees
  double relative_error = 0.0;
  double tolerance = 0.0;  // of the operand with the worst share of its bound
};

[[nodiscard]] Comparison compare_run(const ComparedOp& op, const RunImages& images);

/// What of a buffer's bytes outside `writable` differs from `initial`, in words; empty when nothing does.
[[nodiscard]] std::string describe_stray_write(const std::string& name, size_t operand_bytes, const std::vector<bool>& writable,
                                               const ByteImage& initial, const ByteImage& actual);

}  // namespace foretoken
