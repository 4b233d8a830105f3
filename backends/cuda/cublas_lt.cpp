#include "backends/cuda/cublas_lt.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <type_traits>

#include "backends/gpu/host/error.h"
#include "core/error.h"
#include "core/log.h"

namespace foretoken::cuda {
namespace {

constexpr size_t kOldestVersion = 120000;
/// Of operands, in bytes: what callers promise.
constexpr uint32_t kAlignment = 16;

bool is_turned_off() {
  const char* value = std::getenv("FORETOKEN_CUDA_CUBLASLT");
  return value != nullptr && std::string_view(value) == "0";
}

/// The library's functions, loaded once per process.
class Library {
 public:
  static const Library& instance() {
    static const Library library;
    return library;
  }

  [[nodiscard]] const Availability& availability() const { return availability_; }
  [[nodiscard]] std::string version() const;
  /// Throws DeviceError "CALL failed: NAME (CODE)" unless `status` is success.
  void check(cublasStatus_t status, std::string_view call) const;

  decltype(&::cublasLtGetVersion) get_version = nullptr;
  decltype(&::cublasLtGetStatusName) get_status_name = nullptr;
  decltype(&::cublasLtCreate) create = nullptr;
  decltype(&::cublasLtDestroy) destroy = nullptr;
  decltype(&::cublasLtMatmul) matmul = nullptr;
  decltype(&::cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&::cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&::cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&::cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&::cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&::cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&::cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) get_heuristic = nullptr;

 private:
  Library() : availability_(load()) {
    if (!availability_) log().debug("cuBLASLt: {}", availability_.reason());
  }
  Availability load();

  Availability availability_;
};

Availability Library::load() {
  if (is_turned_off()) return Availability::no("FORETOKEN_CUDA_CUBLASLT=0");
  void* library = nullptr;
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);  // never closed: its threads and handles may outlive every backend
    if (library != nullptr) break;
  }
  if (library == nullptr) return Availability::no(std::string("libcublasLt.so.13 or .12 cannot be loaded: ") + dlerror());
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) missing = name;
  };
  find(get_version, "cublasLtGetVersion");
  find(get_status_name, "cublasLtGetStatusName");
  find(create, "cublasLtCreate");
  find(destroy, "cublasLtDestroy");
  find(matmul, "cublasLtMatmul");
  find(desc_create, "cublasLtMatmulDescCreate");
  find(desc_destroy, "cublasLtMatmulDescDestroy");
  find(desc_set, "cublasLtMatmulDescSetAttribute");
  find(layout_create, "cublasLtMatrixLayoutCreate");
  find(layout_destroy, "cublasLtMatrixLayoutDestroy");
  find(preference_create, "cublasLtMatmulPreferenceCreate");
  find(preference_destroy, "cublasLtMatmulPreferenceDestroy");
  find(preference_set, "cublasLtMatmulPreferenceSetAttribute");
  find(get_heuristic, "cublasLtMatmulAlgoGetHeuristic");
  if (!missing.empty()) return Availability::no("libcublasLt lacks " + missing);
  if (get_version() < kOldestVersion) return Availability::no("libcublasLt " + version() + ", needed is 12.0 or later");
  return Availability::yes();
}

std::string Library::version() const {
  if (get_version == nullptr) return {};
  const size_t number = get_version();
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." + std::to_string(number % 100);
}

void Library::check(cublasStatus_t status, std::string_view call) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorCode::kDeviceError,
              std::string(call) + " failed: " + get_status_name(status) + " (" + std::to_string(static_cast<int>(status)) + ")");
}

/// Owns what the library creates.
template <class T, auto Library::*kDestroy>
struct Destroy {
  void operator()(T handle) const noexcept { static_cast<void>((Library::instance().*kDestroy)(handle)); }
};
template <class T, auto Library::*kDestroy>
using Handle = std::unique_ptr<std::remove_pointer_t<T>, Destroy<T, kDestroy>>;
using DescHandle = Handle<cublasLtMatmulDesc_t, &Library::desc_destroy>;
using LayoutHandle = Handle<cublasLtMatrixLayout_t, &Library::layout_destroy>;
using PreferenceHandle = Handle<cublasLtMatmulPreference_t, &Library::preference_destroy>;

LayoutHandle make_layout(const Library& library, cudaDataType type, int64_t rows, int64_t columns, int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  library.check(library.layout_create(&layout, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), stride),
                "cublasLtMatrixLayoutCreate");
  return LayoutHandle(layout);
}

template <class Value>
void set_preference(const Library& library, cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                    Value value) {
  library.check(library.preference_set(preference, attribute, &value, sizeof(value)), "cublasLtMatmulPreferenceSetAttribute");
}

PreferenceHandle make_preference(const Library& library) {
  cublasLtMatmulPreference_t created = nullptr;
  library.check(library.preference_create(&created), "cublasLtMatmulPreferenceCreate");
  PreferenceHandle preference(created);
  set_preference(library, created, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{CublasLt::kWorkspaceBytes});
  // Sums in place are added in the order in which they are ready.
  set_preference(library, created, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                 static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set_preference(library, created, attribute, kAlignment);
  }
  return preference;
}

}  // namespace

class CublasLt::Plans {
 public:
  explicit Plans(int device) : device_(device) {}
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;
  ~Plans() {
    if (handle_ != nullptr) static_cast<void>(Library::instance().destroy(handle_));
  }

  struct Plan {
    Availability available = Availability::yes();
    DescHandle desc{};
    // Of the library's matrices, which lie column by column: weight^T [K, N], x^T [K, T], out^T [N, T].
    LayoutHandle weight{};
    LayoutHandle x{};
    LayoutHandle out{};
    cublasLtMatmulAlgo_t algorithm{};
  };

  /// The plan of `product`, made where there is none yet.
  const Plan& find(const Product& product) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Plan>& plan = plans_[product];
    if (plan == nullptr) plan = make(product);
    return *plan;
  }
  [[nodiscard]] cublasLtHandle_t handle() const { return handle_; }

 private:
  std::unique_ptr<Plan> make(const Product& product);

  int device_;
  std::mutex mutex_;
  cublasLtHandle_t handle_ = nullptr;  // made with the first plan
  std::map<Product, std::unique_ptr<Plan>> plans_;
};

std::unique_ptr<CublasLt::Plans::Plan> CublasLt::Plans::make(const Product& product) {
  const Library& library = Library::instance();
  use_device(device_);
  auto plan = std::make_unique<Plan>();
  if (handle_ == nullptr) {
    if (const cublasStatus_t status = library.create(&handle_); status != CUBLAS_STATUS_SUCCESS) {
      handle_ = nullptr;
      plan->available = Availability::no(std::string("cublasLtCreate failed: ") + library.get_status_name(status));
      return plan;
    }
  }
  cublasLtMatmulDesc_t desc = nullptr;
  library.check(library.desc_create(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  plan->desc.reset(desc);
  const cublasOperation_t transposed = CUBLAS_OP_T;
  library.check(library.desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)),
                "cublasLtMatmulDescSetAttribute");
  const cudaDataType out_type = product.out_is_bf16 ? CUDA_R_16BF : CUDA_R_32F;
  plan->weight = make_layout(library, CUDA_R_16BF, product.in_features, product.out_features, product.in_features);
  plan->x = make_layout(library, CUDA_R_16BF, product.in_features, product.num_rows, product.x_stride);
  plan->out = make_layout(library, out_type, product.out_features, product.num_rows, product.out_stride);

  const PreferenceHandle preference = make_preference(library);
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const cublasStatus_t status = library.get_heuristic(handle_, desc, plan->weight.get(), plan->x.get(), plan->out.get(),
                                                      plan->out.get(), preference.get(), 1, &result, &found);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0 || result.state != CUBLAS_STATUS_SUCCESS) {
    plan->available = Availability::no(std::string("cuBLASLt has no algorithm: ") + library.get_status_name(status));
  }
  plan->algorithm = result.algo;
  return plan;
}

CublasLt::CublasLt(int device) : plans_(std::make_unique<Plans>(device)) {}
CublasLt::~CublasLt() = default;

Availability CublasLt::availability() { return Library::instance().availability(); }
std::string CublasLt::version() { return Library::instance().version(); }

Availability CublasLt::plan(const Product& product) {
  if (const Availability available = availability(); !available) return available;
  return plans_->find(product).available;
}

void CublasLt::enqueue(cudaStream_t stream, const Product& product, uint64_t x, uint64_t weight, uint64_t out,
                       uint64_t workspace) {
  const Library& library = Library::instance();
  const Plans::Plan& plan = plans_->find(product);
  const float one = 1.0F;
  const float zero = 0.0F;
  const auto pointer = [](uint64_t address) { return reinterpret_cast<void*>(address); };
  library.check(library.matmul(plans_->handle(), plan.desc.get(), &one, pointer(weight), plan.weight.get(), pointer(x),
                               plan.x.get(), &zero, pointer(out), plan.out.get(), pointer(out), plan.out.get(), &plan.algorithm,
                               pointer(workspace), kWorkspaceBytes, stream),
                "cublasLtMatmul");
}

}  // namespace foretoken::cuda
