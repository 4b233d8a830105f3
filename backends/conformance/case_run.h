// One case on one backend: the reference's results, computed once, and a run of each implementation against them.
#pragma once

#include <vector>

#include "backends/conformance/compare.h"
#include "backends/conformance/runnable_case.h"

namespace foretoken {

/// The verdict on one implementation in one mode.
struct ModeResult {
  std::string mode;
  Comparison comparison;
};

struct CaseTiming {
  double median_us = 0.0;
  uint64_t operand_bytes = 0;  // of all operands; what a kernel reads of tables and caches may be less
};

class CaseRun {
 public:
  /// All references must outlive the run. Contents follow from the case's name and `seed`.
  CaseRun(GpuBackend& backend, Stream& stream, const RunnableCase& test_case, uint64_t seed = 0);

  /// Whether the implementation takes the operands of the case.
  [[nodiscard]] Availability accepts(const OpImplementation& implementation);
  /// Immediate, then recorded and replayed. An Error of the backend becomes a failure.
  [[nodiscard]] std::vector<ModeResult> run(const OpImplementation& implementation);
  /// Time of one replay, by the host's clock over many in a row. Throws what the backend throws.
  [[nodiscard]] CaseTiming time(const OpImplementation& implementation);

 private:
  static constexpr size_t kRounds = 4;  // one immediate, three replays

  /// Contents and results of one seed.
  struct Round {
    std::vector<ByteImage> initial;
    std::vector<ByteImage> expected;
  };

  /// The operator in device memory, with its workspace.
  struct DeviceOp {
    explicit DeviceOp(GpuBackend& backend) : memory(backend) {}
    OperandSet memory;
    std::unique_ptr<RunnableOp> op;
    size_t num_operands = 0;
  };

  void prepare_rounds();
  void prepare(DeviceOp& device, const OpImplementation& implementation);
  void upload(const DeviceOp& device, const Round& round);
  [[nodiscard]] Comparison check(const DeviceOp& device, const Round& round);

  GpuBackend& backend_;
  Stream& stream_;
  const RunnableCase& case_;
  uint64_t seed_;
  OperandSet host_;
  std::unique_ptr<RunnableOp> host_op_;
  std::vector<Round> rounds_;
};

}  // namespace foretoken
