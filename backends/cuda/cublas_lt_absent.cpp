// Where the toolkit has no header of cuBLASLt: a build without it.
#include "backends/cuda/cublas_lt.h"

#include "core/error.h"

namespace foretoken::cuda {

class CublasLt::Plans {};

CublasLt::CublasLt(int /*device*/) {}
CublasLt::~CublasLt() = default;

Availability CublasLt::availability() { return Availability::no("the toolkit of this build had no cublasLt.h"); }
std::string CublasLt::version() { return {}; }

Availability CublasLt::plan(const Product& /*product*/) { return availability(); }

void CublasLt::enqueue(cudaStream_t /*stream*/, const Product& /*product*/, uint64_t /*x*/, uint64_t /*weight*/, uint64_t /*out*/,
                       uint64_t /*workspace*/) {
  throw Error(ErrorCode::kInternalError, "a product by cuBLASLt without a plan");
}

}  // namespace foretoken::cuda
