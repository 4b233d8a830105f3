// The kinds of memory that callers of CUDA have.
#include <cuda.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

#include "backends/gpu/host/error.h"
#include "backends/gpu/host/provider.h"
#include "core/error.h"

namespace foretoken::cuda {
namespace {

/// A call of the driver's library, which is not linked.
template <class Function>
Function* driver_call(const char* name, unsigned version) {
  void* call = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check({cudaGetDriverEntryPointByVersion(name, &call, version, cudaEnableDefault, &found), "cudaGetDriverEntryPointByVersion"});
  return reinterpret_cast<Function*>(call);
}

class AdoptedCudaMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (const Availability available = provider_.availability(); !available) GTEST_SKIP() << available.reason();
    backend_ = provider_.open(0, {});
    stream_ = backend_->create_stream();
    use_device(0);
  }

  /// Expects that `bytes` from `address` are adopted, written and read.
  void expect_usable(uint64_t address, size_t bytes) {
    const Buffer buffer = backend_->adopt_memory({.handle = address, .offset = 0, .bytes = bytes});
    std::vector<uint8_t> values(bytes);
    std::iota(values.begin(), values.end(), uint8_t{7});
    stream_->upload(std::as_bytes(std::span(values)), buffer.view());
    std::vector<uint8_t> back(bytes);
    stream_->download(buffer.view(), std::as_writable_bytes(std::span(back)));
    EXPECT_EQ(back, values);
  }

  RuntimeProvider provider_;
  std::unique_ptr<GpuBackend> backend_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(AdoptedCudaMemory, MayBeManaged) {
  void* data = nullptr;
  check({cudaMallocManaged(&data, 5000), "cudaMallocManaged"});
  expect_usable(reinterpret_cast<uint64_t>(data), 5000);
  check({cudaFree(data), "cudaFree"});
}

TEST_F(AdoptedCudaMemory, MayBeOfAPool) {
  void* data = nullptr;
  check({cudaMallocAsync(&data, 5000, nullptr), "cudaMallocAsync"});
  check({cudaStreamSynchronize(nullptr), "cudaStreamSynchronize"});
  expect_usable(reinterpret_cast<uint64_t>(data), 5000);
  check({cudaFreeAsync(data, nullptr), "cudaFreeAsync"});
  check({cudaStreamSynchronize(nullptr), "cudaStreamSynchronize"});
}

// As allocators with expandable segments have it: one range of addresses, mapped piece by piece.
TEST_F(AdoptedCudaMemory, MayBeMappedInPieces) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
  size_t piece = 0;
  ASSERT_EQ(driver_call<decltype(cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity", 10020)(
                &piece, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            CUDA_SUCCESS);
  constexpr size_t kPieces = 2;
  CUdeviceptr begin = 0;
  ASSERT_EQ(driver_call<decltype(cuMemAddressReserve)>("cuMemAddressReserve", 10020)(&begin, (kPieces + 1) * piece, 0, 0, 0),
            CUDA_SUCCESS);
  std::array<CUmemGenericAllocationHandle, kPieces> handles{};
  for (size_t i = 0; i < kPieces; ++i) {
    ASSERT_EQ(driver_call<decltype(cuMemCreate)>("cuMemCreate", 10020)(&handles[i], piece, &properties, 0), CUDA_SUCCESS);
    ASSERT_EQ(driver_call<decltype(cuMemMap)>("cuMemMap", 10020)(begin + i * piece, piece, 0, handles[i], 0), CUDA_SUCCESS);
  }
  const CUmemAccessDesc access{.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(driver_call<decltype(cuMemSetAccess)>("cuMemSetAccess", 10020)(begin, kPieces * piece, &access, 1), CUDA_SUCCESS);

  expect_usable(begin + piece - 4096, 8192);
  expect_usable(begin, kPieces * piece);
  EXPECT_THROW(static_cast<void>(backend_->adopt_memory({.handle = begin, .offset = piece, .bytes = 2 * piece})), Error);
  EXPECT_THROW(static_cast<void>(backend_->adopt_memory({.handle = begin, .offset = kPieces * piece, .bytes = 64})), Error);

  ASSERT_EQ(driver_call<decltype(cuMemUnmap)>("cuMemUnmap", 10020)(begin, kPieces * piece), CUDA_SUCCESS);
  for (const auto handle : handles) ASSERT_EQ(driver_call<decltype(cuMemRelease)>("cuMemRelease", 10020)(handle), CUDA_SUCCESS);
  ASSERT_EQ(driver_call<decltype(cuMemAddressFree)>("cuMemAddressFree", 10020)(begin, (kPieces + 1) * piece), CUDA_SUCCESS);
}

}  // namespace
}  // namespace foretoken::cuda
