#include "backends/cpu/cpu_stream.h"

#include <cstring>

#include "backends/cpu/cpu_event.h"
#include "backends/view_checks.h"
#include "core/error.h"

namespace foretoken::cpu {
namespace {

CpuEvent& own_event(Event& event) {
  auto* own = dynamic_cast<CpuEvent*>(&event);
  if (own == nullptr) throw Error(ErrorCode::kInvalidArgument, "event of another backend");
  return *own;
}

}  // namespace

void CpuStream::run(const RecordFn& fn) {
  RecordingCommandList::refuse_while_recording("running work");
  ImmediateCommandList list(ops_, capabilities_, pool_, fault_, nullptr);
  fn(list);
}

void CpuStream::run(const Program& program) {
  RecordingCommandList::refuse_while_recording("running a Program");
  const auto* own = program ? dynamic_cast<const CpuProgram*>(&program.body()) : nullptr;
  if (own == nullptr) throw Error(ErrorCode::kInvalidArgument, program ? "Program of another backend" : "empty Program");
  if (eager_) {
    ImmediateCommandList list(ops_, capabilities_, pool_, fault_, &own->label());
    own->function()(list);
  } else {
    own->replay(pool_, fault_);
  }
}

void CpuStream::upload(std::span<const std::byte> source, const BufferView& destination) {
  RecordingCommandList::refuse_while_recording("upload");
  check_view(destination, "upload: destination");
  check_equal_sizes(source.size(), destination.bytes, "upload");
  if (source.empty() || fault_.raised()) return;
  std::memcpy(reinterpret_cast<void*>(destination.address()), source.data(), source.size());
}

void CpuStream::download(const BufferView& source, std::span<std::byte> destination) {
  RecordingCommandList::refuse_while_recording("download");
  check_view(source, "download: source");
  check_equal_sizes(source.bytes, destination.size(), "download");
  throw_fault();
  if (!destination.empty()) {
    std::memcpy(destination.data(), reinterpret_cast<const void*>(source.address()), destination.size());
  }
}

void CpuStream::copy(const BufferView& source, const BufferView& destination) {
  run([&](CommandList& list) { list.copy(source, destination); });
}

void CpuStream::record(Event& event) {
  RecordingCommandList::refuse_while_recording("recording an event");
  own_event(event).set(fault_.peek());
}

void CpuStream::wait(Event& event) {
  RecordingCommandList::refuse_while_recording("waiting for an event");
  if (const auto message = own_event(event).fault()) fault_.raise(*message);
}

void CpuStream::synchronize() {
  RecordingCommandList::refuse_while_recording("synchronize");
  throw_fault();
}

void CpuStream::throw_fault() {
  if (const auto message = fault_.take()) throw Error(ErrorCode::kDeviceError, *message);
}

}  // namespace foretoken::cpu
