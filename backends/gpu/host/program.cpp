#include "backends/gpu/host/program.h"

#include <utility>

namespace foretoken::FORETOKEN_GPU_NAMESPACE {
namespace {

/// Ends the capture of a stream whatever happens in between.
class Capture {
 public:
  explicit Capture(runtime::Stream stream) : stream_(stream) { check(runtime::begin_capture(stream)); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    if (stream_ == nullptr) return;
    runtime::Graph graph = nullptr;
    check_in_destructor(runtime::end_capture(stream_, graph));
    if (graph != nullptr) check_in_destructor(runtime::destroy(graph));
  }

  [[nodiscard]] GraphHandle end() {
    runtime::Graph graph = nullptr;
    check(runtime::end_capture(std::exchange(stream_, nullptr), graph));
    return GraphHandle(graph);
  }

 private:
  runtime::Stream stream_;
};

}  // namespace

RuntimeProgram::RuntimeProgram(std::string label, RecordFn function, const ListContext& context)
    : ProgramBody(std::move(label), std::move(function)) {
  const StreamHandle stream = make_stream();
  Capture capture(stream.get());
  {
    RuntimeCommandList list(context, stream.get(), ListMode::kRecording, "program '" + this->label() + "'");
    this->function()(list);
    num_launches_ = list.num_launches();
  }
  const GraphHandle graph = capture.end();
  if (num_launches_ == 0) return;
  runtime::GraphExec exec = nullptr;
  check(runtime::instantiate(exec, graph.get()), "program '" + this->label() + "'");
  exec_.reset(exec);
  check(runtime::upload(exec_.get(), stream.get()));
  check(runtime::synchronize(stream.get()), "upload of program '" + this->label() + "'");
}

void RuntimeProgram::replay(runtime::Stream stream) const {
  if (exec_ == nullptr) return;
  const runtime::Result result = runtime::launch(exec_.get(), stream);
  if (result.failed()) check(result, "program '" + label() + "'");
}

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
