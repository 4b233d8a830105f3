#include "backends/gpu/host/stream.h"

#include <algorithm>

#include "backends/gpu/host/event.h"
#include "backends/gpu/host/program.h"
#include "backends/view_checks.h"
#include "core/error.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {
namespace {

RuntimeEvent& own_event(Event& event) {
  auto* own = dynamic_cast<RuntimeEvent*>(&event);
  if (own == nullptr) throw Error(ErrorCode::kInvalidArgument, "event of another backend");
  return *own;
}

}  // namespace

RuntimeStream::RuntimeStream(int device, const ListContext& context, bool synchronous)
    : device_(device), context_(context), synchronous_(synchronous) {
  use_device(device);
  own_ = make_stream();
  stream_ = own_.get();
}

RuntimeStream::RuntimeStream(int device, const ListContext& context, bool synchronous, runtime::Stream adopted)
    : device_(device), context_(context), synchronous_(synchronous), stream_(adopted) {
  const auto refuse = [](const std::string& got) {
    throw Error(ErrorCode::kInvalidArgument,
                {.what = "stream to adopt", .expected = "a stream of this device's primary context", .got = got});
  };
  if (runtime::is_of_each_thread(adopted)) refuse("the default stream of each thread, which is another one on every thread");
  enter("adopting it");
  uploaded_ = make_event(/*keeps_time=*/false);
  const runtime::Result recorded = runtime::record(uploaded_.get(), stream_);  // fails on a stream of another device or context
  if (!recorded.failed()) return;
  runtime::clear_error();
  refuse("one on which " + std::string(recorded.call) + " fails: " + describe(recorded.status));
}

RuntimeStream::~RuntimeStream() {
  check_in_destructor(runtime::set_device(device_));
  check_in_destructor(own_ != nullptr ? runtime::synchronize(stream_) : runtime::synchronize(uploaded_.get()));
}

void RuntimeStream::run(const RecordFn& fn) {
  enter("running work");
  remember("immediate work");
  RuntimeCommandList list(context_, stream_, synchronous_ ? ListMode::kSynchronous : ListMode::kImmediate, "immediate");
  fn(list);
}

void RuntimeStream::run(const Program& program) {
  enter("running a Program");
  const auto* own = program ? dynamic_cast<const RuntimeProgram*>(&program.body()) : nullptr;
  if (own == nullptr) throw Error(ErrorCode::kInvalidArgument, program ? "Program of another backend" : "empty Program");
  remember(own->label());
  if (synchronous_) {
    RuntimeCommandList list(context_, stream_, ListMode::kSynchronous, "program '" + own->label() + "'");
    own->function()(list);
  } else {
    own->replay(stream_);
  }
}

void RuntimeStream::upload(std::span<const std::byte> source, const BufferView& destination) {
  enter("upload");
  check_view(destination, "upload: destination");
  check_equal_sizes(source.size(), destination.bytes, "upload");
  staging_.upload(stream_, source, reinterpret_cast<void*>(destination.address()));
  if (own_ == nullptr) check(runtime::record(uploaded_.get(), stream_));
}

void RuntimeStream::download(const BufferView& source, std::span<std::byte> destination) {
  enter("download");
  check_view(source, "download: source");
  check_equal_sizes(source.bytes, destination.size(), "download");
  if (!destination.empty()) {
    staging_.begin_download(stream_, reinterpret_cast<const void*>(source.address()), destination);
  }
  wait_for_all();
  if (!destination.empty()) staging_.finish_download(destination);
}

void RuntimeStream::copy(const BufferView& source, const BufferView& destination) {
  run([&](CommandList& list) { list.copy(source, destination); });
}

void RuntimeStream::record(Event& event) {
  enter("recording an event");
  own_event(event).record(stream_);
}

void RuntimeStream::wait(Event& event) {
  enter("waiting for an event");
  check(runtime::wait_event(stream_, own_event(event).get()));
}

void RuntimeStream::synchronize() {
  enter("synchronize");
  wait_for_all();
}

void RuntimeStream::enter(std::string_view call) const {
  RuntimeCommandList::refuse_while_recording(call);
  use_device(device_);
  if (own_ != nullptr) return;
  bool captured = false;
  check(runtime::is_captured(stream_, captured));
  if (captured) {
    throw Error(ErrorCode::kInvalidState,
                std::string(call) + " while the stream's owner captures it into a graph: it needs the host");
  }
}

void RuntimeStream::remember(std::string_view work) {
  const auto known = recent_.begin() + static_cast<std::ptrdiff_t>(std::min(num_recent_, kRemembered));
  if (std::find(recent_.begin(), known, work) != known) return;
  recent_[num_recent_++ % kRemembered] = work;
}

void RuntimeStream::wait_for_all() {
  const runtime::Result result = runtime::synchronize(stream_);
  if (result.failed()) {
    std::string work;
    for (size_t i = 0; i < std::min(num_recent_, kRemembered); ++i) work += (i == 0 ? "'" : ", '") + recent_[i] + "'";
    check(result, "work since the last wait: " + (work.empty() ? "copies" : work));
  }
  num_recent_ = 0;
}

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
