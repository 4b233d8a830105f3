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

class CaseRun {
 public:
  /// All references must outlive the run.
  CaseRun(GpuBackend& backend, Stream& stream, const RunnableCase& test_case);

  /// Whether the implementation takes the operands of the case.
  [[nodiscard]] Availability accepts(const OpImplementation& implementation);
  /// Immediate, then recorded and replayed. An Error of the backend becomes a failure.
  [[nodiscard]] std::vector<ModeResult> run(const OpImplementation& implementation);

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
  OperandSet host_;
  std::unique_ptr<RunnableOp> host_op_;
  std::vector<Round> rounds_;
};

}  // namespace foretoken
