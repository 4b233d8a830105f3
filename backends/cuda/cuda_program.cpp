#include "backends/cuda/cuda_program.h"

#include <utility>

namespace foretoken::cuda {
namespace {

/// Ends the capture of a stream whatever happens in between.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    if (stream_ == nullptr) return;
    cudaGraph_t graph = nullptr;
    check_in_destructor(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    if (graph != nullptr) check_in_destructor(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }

  [[nodiscard]] GraphHandle end() {
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(std::exchange(stream_, nullptr), &graph), "cudaStreamEndCapture");
    return GraphHandle(graph);
  }

 private:
  cudaStream_t stream_;
};

}  // namespace

CudaProgram::CudaProgram(std::string label, RecordFn function, const ListContext& context)
    : ProgramBody(std::move(label), std::move(function)) {
  const StreamHandle stream = make_stream();
  Capture capture(stream.get());
  {
    CudaCommandList list(context, stream.get(), ListMode::kRecording, "program '" + this->label() + "'");
    this->function()(list);
    num_launches_ = list.num_launches();
  }
  const GraphHandle graph = capture.end();
  if (num_launches_ == 0) return;
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph.get(), 0), "cudaGraphInstantiate", "program '" + this->label() + "'");
  exec_.reset(exec);
  check(cudaGraphUpload(exec_.get(), stream.get()), "cudaGraphUpload");
  check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize", "upload of program '" + this->label() + "'");
}

void CudaProgram::replay(cudaStream_t stream) const {
  if (exec_ == nullptr) return;
  const cudaError_t status = cudaGraphLaunch(exec_.get(), stream);
  if (status != cudaSuccess) check(status, "cudaGraphLaunch", "program '" + label() + "'");
}

}  // namespace foretoken::cuda
