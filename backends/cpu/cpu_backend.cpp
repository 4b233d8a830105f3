#include "backends/cpu/cpu_backend.h"

#include <cstdlib>
#include <string>

#include "backends/adopted_memory.h"
#include "backends/cpu/cpu_buffer.h"
#include "backends/cpu/cpu_command_list.h"
#include "backends/cpu/cpu_event.h"
#include "backends/cpu/cpu_info.h"
#include "backends/cpu/cpu_info_limits.h"
#include "backends/cpu/cpu_stream.h"
#include "core/error.h"

namespace foretoken::cpu {
namespace {

int choose_num_threads(int asked) {
  if (asked < 0 || asked > ThreadPool::kMaxThreads) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "number of CPU threads",
                                              .expected = "0 .. " + std::to_string(ThreadPool::kMaxThreads),
                                              .got = std::to_string(asked)});
  }
  return asked == 0 ? usable_cores() : asked;
}

}  // namespace

CpuBackend::CpuBackend(const BackendOptions& options, bool eager)
    : num_threads_(choose_num_threads(options.num_threads)),
      kernels_(select_isa(std::getenv("FORETOKEN_CPU_ISA"))),
      capabilities_(cpu_capabilities(kernels_.isa(), num_threads_)),
      ops_(make_op_table(kernels_)),
      eager_(eager),
      pool_(num_threads_, /*spin=*/num_threads_ <= usable_cores()) {}

Buffer CpuBackend::allocate(size_t bytes, MemoryKind kind) {
  RecordingCommandList::refuse_while_recording("allocating memory");
  return Buffer(std::make_unique<CpuBuffer>(bytes, kind, allocated_bytes_));
}

Buffer CpuBackend::adopt_memory(const NativeMemory& memory) {
  RecordingCommandList::refuse_while_recording("adopting memory");
  const DeviceAddress address = memory.handle + memory.offset;
  check_adoptable(memory, address);
  return Buffer(std::make_unique<AdoptedMemory>(address, memory.bytes));
}

std::unique_ptr<Stream> CpuBackend::create_stream() { return std::make_unique<CpuStream>(ops_, capabilities_, pool_, eager_); }

std::unique_ptr<Event> CpuBackend::create_event() { return std::make_unique<CpuEvent>(); }

Program CpuBackend::record(std::string_view label, const RecordFn& fn) {
  RecordingCommandList::refuse_while_recording("recording a second Program");
  auto program = std::make_unique<CpuProgram>(std::string(label), fn);
  {
    RecordingCommandList list(ops_, capabilities_, *program);
    fn(list);
  }
  program->finish();
  return Program(std::move(program));
}

}  // namespace foretoken::cpu
