#include "backends/cpu/onednn.h"

#ifdef FORETOKEN_CPU_ONEDNN

#include <dlfcn.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "backends/cpu/kernels/linear_prefill_params.h"
#include "core/error.h"
#include "core/log.h"

namespace foretoken::cpu {
namespace {

/// While it lives, what oneDNN does on this thread stays on this thread. oneDNN's OpenMP belongs to the host program: only the
/// calling thread's own setting is touched, and it is put back.
class SingleThreaded {
 public:
  SingleThreaded() {
    if (runtime().set_num_threads == nullptr) return;
    previous_ = runtime().get_max_threads();
    if (previous_ != 1) runtime().set_num_threads(1);
  }
  ~SingleThreaded() {
    if (previous_ > 1) runtime().set_num_threads(previous_);
  }
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  struct Runtime {
    int (*get_max_threads)() = nullptr;
    void (*set_num_threads)(int) = nullptr;
  };
  /// Whichever OpenMP oneDNN was linked with; none when it uses another kind of threads.
  static const Runtime& runtime() {
    static const Runtime found = [] {
      Runtime result;
      void* get = dlsym(RTLD_DEFAULT, "omp_get_max_threads");
      void* set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
      if (get != nullptr && set != nullptr) {
        result.get_max_threads = reinterpret_cast<int (*)()>(get);
        result.set_num_threads = reinterpret_cast<void (*)(int)>(set);
      }
      return result;
    }();
    return found;
  }

  int previous_ = 0;
};

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

/// Each thread has its own: a stream is for one thread at a time.
dnnl::stream& stream() {
  thread_local dnnl::stream own(engine());
  return own;
}

dnnl::matmul::primitive_desc describe(uint32_t slice_rows, uint32_t in_features, uint32_t chunk_rows) {
  using Desc = dnnl::memory::desc;
  using Tag = dnnl::memory::format_tag;
  constexpr auto kBf16 = dnnl::memory::data_type::bf16;
  constexpr auto kFloat = dnnl::memory::data_type::f32;
  const int64_t n = slice_rows;
  const int64_t k = in_features;
  const int64_t t = chunk_rows;
  const Desc weight({n, k}, kBf16, Tag::ab);
  const Desc packed({k, t}, kBf16, Tag::any);
  const Desc product({n, t}, kFloat, Tag::ab);
  dnnl::primitive_attr attributes;
  // A primitive runs on several threads at a time, so each brings its own scratch memory.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), weight, packed, product, attributes};
#else
  return {dnnl::matmul::desc(weight, packed, product), attributes, engine()};
#endif
}

/// The transposed view [K, T] of rows [T, K].
dnnl::memory::desc plain_chunk(uint32_t in_features, uint32_t chunk_rows) {
  return {{in_features, chunk_rows}, dnnl::memory::data_type::bf16, dnnl::memory::format_tag::ba};
}

dnnl::reorder::primitive_desc describe_pack(const dnnl::memory::desc& plain, const dnnl::memory::desc& packed) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return {engine(), plain, engine(), packed, attributes};
}

dnnl::memory scratch(const dnnl::memory::desc& desc) {
  thread_local std::vector<std::byte> bytes;
  if (bytes.size() < desc.get_size()) bytes.resize(desc.get_size());
  return {desc, engine(), bytes.data()};
}

}  // namespace

class Bf16Matmul {
 public:
  Bf16Matmul(uint32_t slice_rows, uint32_t in_features, uint32_t chunk_rows)
      : desc_(describe(slice_rows, in_features, chunk_rows)),
        matmul_(desc_),
        plain_(plain_chunk(in_features, chunk_rows)),
        pack_desc_(describe_pack(plain_, desc_.weights_desc())),
        pack_(pack_desc_),
        slice_rows_(slice_rows),
        chunk_rows_(chunk_rows) {}

  [[nodiscard]] size_t packed_bytes() const { return desc_.weights_desc().get_size(); }

  void pack(uint64_t x, uint64_t packed) const {
    pack_.execute(stream(), {{DNNL_ARG_FROM, at(plain_, x)},
                             {DNNL_ARG_TO, at(desc_.weights_desc(), packed)},
                             {DNNL_ARG_SCRATCHPAD, scratch(pack_desc_.scratchpad_desc())}});
    stream().wait();
  }

  void multiply(uint64_t weight, uint64_t packed, uint64_t product) const {
    matmul_.execute(stream(), {{DNNL_ARG_SRC, at(desc_.src_desc(), weight)},
                               {DNNL_ARG_WEIGHTS, at(desc_.weights_desc(), packed)},
                               {DNNL_ARG_DST, at(desc_.dst_desc(), product)},
                               {DNNL_ARG_SCRATCHPAD, scratch(desc_.scratchpad_desc())}});
    stream().wait();
  }

  [[nodiscard]] size_t chunk_rows() const { return chunk_rows_; }
  [[nodiscard]] size_t product_floats() const { return slice_rows_ * chunk_rows_; }

 private:
  static dnnl::memory at(const dnnl::memory::desc& desc, uint64_t address) {
    return {desc, engine(), reinterpret_cast<void*>(static_cast<uintptr_t>(address))};
  }

  dnnl::matmul::primitive_desc desc_;
  dnnl::matmul matmul_;
  dnnl::memory::desc plain_;
  dnnl::reorder::primitive_desc pack_desc_;
  dnnl::reorder pack_;
  size_t slice_rows_;
  size_t chunk_rows_;
};

namespace {

const Bf16Matmul& matmul_of(const Bf16MatmulParams& p, size_t slice, size_t chunk) {
  const uint64_t address = p.matmuls[slice + 1 == p.num_slices][chunk + 1 == p.num_chunks];
  return *reinterpret_cast<const Bf16Matmul*>(static_cast<uintptr_t>(address));
}

/// Kernels cannot throw. The products of a call that failed become NaN, which no result can hide.
template <class Call>
void guarded(const Call& call, float* product, size_t count) {
  try {
    call();
  } catch (const std::exception& error) {
    log().error("oneDNN: {}", error.what());
    std::fill_n(product, count, std::numeric_limits<float>::quiet_NaN());
  }
}

void pack(const Bf16MatmulParams& p, uint32_t begin, uint32_t end) {
  const SingleThreaded single;
  for (size_t chunk = begin; chunk < end; ++chunk) {
    const uint64_t x = p.x + chunk * kPrefillChunkRows * p.in_features * sizeof(uint16_t);
    const uint64_t packed = p.packed + chunk * p.packed_stride;
    const Bf16Matmul& matmul = matmul_of(p, 0, chunk);
    // The upper half of a float32 NaN is a BF16 NaN; one in each pair along K is enough.
    guarded([&] { matmul.pack(x, packed); }, reinterpret_cast<float*>(static_cast<uintptr_t>(packed)),
            matmul.packed_bytes() / sizeof(float));
  }
}

void multiply(const Bf16MatmulParams& p, uint32_t begin, uint32_t end) {
  const SingleThreaded single;
  for (size_t item = begin; item < end; ++item) {
    const size_t slice = item / p.num_chunks;
    const size_t chunk = item % p.num_chunks;
    const Bf16Matmul& matmul = matmul_of(p, slice, chunk);
    const size_t first = slice * p.slice_rows;
    const uint64_t weight = p.weight + first * p.in_features * sizeof(uint16_t);
    const size_t chunk_rows = matmul.chunk_rows();
    const uint64_t product = p.product + (chunk * kPrefillChunkRows * p.out_features + first * chunk_rows) * sizeof(float);
    guarded([&] { matmul.multiply(weight, p.packed + chunk * p.packed_stride, product); },
            reinterpret_cast<float*>(static_cast<uintptr_t>(product)), matmul.product_floats());
  }
}

constexpr KernelEntry kEntries[] = {
    kernel_entry<Bf16MatmulParams, pack>("onednn_pack"),
    kernel_entry<Bf16MatmulParams, multiply>("onednn_matmul"),
};

}  // namespace

Availability onednn_bf16() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto bf16 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  if ((isa & bf16) == bf16) return Availability::yes();
  return Availability::no("this CPU has neither AVX512_BF16 nor AMX");
}

const Bf16Matmul& bf16_matmul(uint32_t slice_rows, uint32_t in_features, uint32_t chunk_rows) {
  const Availability available = onednn_bf16();
  if (!available) throw Error(ErrorCode::kUnsupported, "oneDNN: " + available.reason());
  static std::mutex mutex;
  static std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::unique_ptr<const Bf16Matmul>> known;
  const std::lock_guard lock(mutex);
  std::unique_ptr<const Bf16Matmul>& matmul = known[{slice_rows, in_features, chunk_rows}];
  if (matmul == nullptr) {
    const SingleThreaded single;
    try {
      matmul = std::make_unique<const Bf16Matmul>(slice_rows, in_features, chunk_rows);
    } catch (const dnnl::error& error) {
      throw Error(ErrorCode::kDeviceError, std::string("oneDNN cannot make a BF16 matrix product: ") + error.what());
    }
  }
  return *matmul;
}

size_t packed_bytes(const Bf16Matmul& matmul) { return matmul.packed_bytes(); }

std::span<const KernelEntry> onednn_kernels() {
  if (onednn_bf16()) return kEntries;
  return {};
}

}  // namespace foretoken::cpu

#else

#include "core/error.h"

namespace foretoken::cpu {

class Bf16Matmul {};

Availability onednn_bf16() { return Availability::no("built without oneDNN"); }

const Bf16Matmul& bf16_matmul(uint32_t, uint32_t, uint32_t) {
  throw Error(ErrorCode::kUnsupported, "oneDNN: " + onednn_bf16().reason());
}

size_t packed_bytes(const Bf16Matmul&) { return 0; }

std::span<const KernelEntry> onednn_kernels() { return {}; }

}  // namespace foretoken::cpu

#endif
