// A stream of the CPU: work is done when the call that adds it returns.
#pragma once

#include "backends/cpu/cpu_command_list.h"
#include "backends/cpu/cpu_program.h"
#include "backends/cpu/thread_pool.h"
#include "backends/stream.h"

namespace foretoken::cpu {

/// After a fault, work is left out until a waiting call has thrown it.
class CpuStream final : public Stream {
 public:
  /// All three outlive the stream. `eager`: Programs run launch by launch (FORETOKEN_EAGER=1).
  CpuStream(const OpTable& ops, const Capabilities& capabilities, ThreadPool& pool, bool eager)
      : ops_(ops), capabilities_(capabilities), pool_(pool), eager_(eager) {}

  void run(const RecordFn& fn) override;
  void run(const Program& program) override;
  void upload(std::span<const std::byte> source, const BufferView& destination) override;
  void download(const BufferView& source, std::span<std::byte> destination) override;
  void copy(const BufferView& source, const BufferView& destination) override;
  void record(Event& event) override;
  void wait(Event& event) override;
  void synchronize() override;

 private:
  void throw_fault();

  const OpTable& ops_;
  const Capabilities& capabilities_;
  ThreadPool& pool_;
  bool eager_;
  FaultSlot fault_;
};

}  // namespace foretoken::cpu
