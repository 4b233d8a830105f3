#include "backends/cuda/cuda_stream.h"

#include <algorithm>

#include "backends/cuda/cuda_event.h"
#include "backends/cuda/cuda_program.h"
#include "backends/view_checks.h"
#include "core/error.h"

namespace foretoken::cuda {
namespace {

CudaEvent& own_event(Event& event) {
  auto* own = dynamic_cast<CudaEvent*>(&event);
  if (own == nullptr) throw Error(ErrorCode::kInvalidArgument, "event of another backend");
  return *own;
}

}  // namespace

CudaStream::CudaStream(int device, const ListContext& context, bool synchronous)
    : device_(device), context_(context), synchronous_(synchronous) {
  use_device(device);
  stream_ = make_stream();
}

CudaStream::~CudaStream() {
  check_in_destructor(cudaSetDevice(device_), "cudaSetDevice");
  check_in_destructor(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
}

void CudaStream::run(const RecordFn& fn) {
  enter("running work");
  remember("immediate work");
  CudaCommandList list(context_, stream_.get(), synchronous_ ? ListMode::kSynchronous : ListMode::kImmediate, "immediate");
  fn(list);
}

void CudaStream::run(const Program& program) {
  enter("running a Program");
  const auto* own = program ? dynamic_cast<const CudaProgram*>(&program.body()) : nullptr;
  if (own == nullptr) throw Error(ErrorCode::kInvalidArgument, program ? "Program of another backend" : "empty Program");
  remember(own->label());
  if (synchronous_) {
    CudaCommandList list(context_, stream_.get(), ListMode::kSynchronous, "program '" + own->label() + "'");
    own->function()(list);
  } else {
    own->replay(stream_.get());
  }
}

void CudaStream::upload(std::span<const std::byte> source, const BufferView& destination) {
  enter("upload");
  check_view(destination, "upload: destination");
  check_equal_sizes(source.size(), destination.bytes, "upload");
  staging_.upload(stream_.get(), source, reinterpret_cast<void*>(destination.address()));
}

void CudaStream::download(const BufferView& source, std::span<std::byte> destination) {
  enter("download");
  check_view(source, "download: source");
  check_equal_sizes(source.bytes, destination.size(), "download");
  if (!destination.empty()) {
    staging_.begin_download(stream_.get(), reinterpret_cast<const void*>(source.address()), destination);
  }
  wait_for_all();
  if (!destination.empty()) staging_.finish_download(destination);
}

void CudaStream::copy(const BufferView& source, const BufferView& destination) {
  run([&](CommandList& list) { list.copy(source, destination); });
}

void CudaStream::record(Event& event) {
  enter("recording an event");
  own_event(event).record(stream_.get());
}

void CudaStream::wait(Event& event) {
  enter("waiting for an event");
  check(cudaStreamWaitEvent(stream_.get(), own_event(event).get(), 0), "cudaStreamWaitEvent");
}

void CudaStream::synchronize() {
  enter("synchronize");
  wait_for_all();
}

void CudaStream::enter(std::string_view call) const {
  CudaCommandList::refuse_while_recording(call);
  use_device(device_);
}

void CudaStream::remember(std::string_view work) {
  const auto known = recent_.begin() + static_cast<std::ptrdiff_t>(std::min(num_recent_, kRemembered));
  if (std::find(recent_.begin(), known, work) != known) return;
  recent_[num_recent_++ % kRemembered] = work;
}

void CudaStream::wait_for_all() {
  const cudaError_t status = cudaStreamSynchronize(stream_.get());
  if (status != cudaSuccess) {
    std::string work;
    for (size_t i = 0; i < std::min(num_recent_, kRemembered); ++i) work += (i == 0 ? "'" : ", '") + recent_[i] + "'";
    check(status, "cudaStreamSynchronize", "work since the last wait: " + (work.empty() ? "copies" : work));
  }
  num_recent_ = 0;
}

}  // namespace foretoken::cuda
