#include "backends/cpu/cpu_command_list.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "backends/cpu/kernel_module.h"
#include "backends/view_checks.h"

namespace foretoken::cpu {
namespace {

// An item of a copy or fill: long against the cost of a launch, short enough to spread.
constexpr size_t kItemBytes = size_t{64} << 10;

struct CopyParams {
  DeviceAddress source;
  DeviceAddress destination;
  uint64_t bytes;
};

struct FillParams {
  DeviceAddress destination;
  uint64_t bytes;
  uint32_t pattern;
};

struct ByteRange {
  size_t begin;
  size_t bytes;
};

ByteRange item_range(uint64_t bytes, uint32_t begin, uint32_t end) {
  const size_t first = begin * kItemBytes;
  return {.begin = first, .bytes = std::min<size_t>(end * kItemBytes, bytes) - first};
}

void copy_items(const void* params, uint32_t begin, uint32_t end) {
  const auto& copy = *static_cast<const CopyParams*>(params);
  const ByteRange range = item_range(copy.bytes, begin, end);
  std::memcpy(reinterpret_cast<void*>(copy.destination + range.begin), reinterpret_cast<const void*>(copy.source + range.begin),
              range.bytes);
}

void fill_items(const void* params, uint32_t begin, uint32_t end) {
  const auto& fill = *static_cast<const FillParams*>(params);
  const ByteRange range = item_range(fill.bytes, begin, end);
  auto* out = reinterpret_cast<std::byte*>(fill.destination + range.begin);
  for (size_t i = 0; i < range.bytes; i += sizeof(fill.pattern)) std::memcpy(out + i, &fill.pattern, sizeof(fill.pattern));
}

uint32_t num_byte_items(size_t bytes) { return static_cast<uint32_t>((bytes + kItemBytes - 1) / kItemBytes); }

}  // namespace

void CpuCommandList::launch(const KernelCode& code, Grid grid, std::span<const std::byte> params,
                            std::span<const Access> accesses) {
  const auto& kernel = checked_kernel<CpuKernelCode>(code, params);
  constexpr uint64_t kMaxItems = std::numeric_limits<uint32_t>::max();
  const uint64_t num_rows = uint64_t{grid.y} * grid.z;
  if (num_rows != 0 && grid.x > kMaxItems / num_rows) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "launch of kernel " + code.name() + " with too large a grid",
                                              .expected = "at most " + std::to_string(kMaxItems) + " work items",
                                              .got = std::to_string(grid.x) + " x " + std::to_string(num_rows)});
  }
  for (const Access& access : accesses) check_view(access.view, "operand of kernel " + code.name());
  const uint64_t num_items = grid.x * num_rows;
  if (num_items > 0) submit(kernel.function(), kernel.name(), params, static_cast<uint32_t>(num_items), accesses);
}

void CpuCommandList::copy(const BufferView& source, const BufferView& destination) {
  check_copy(source, destination);
  if (source.bytes == 0) return;
  const CopyParams params{.source = source.address(), .destination = destination.address(), .bytes = source.bytes};
  const std::array accesses{Access{.view = source, .mode = AccessMode::kRead},
                            Access{.view = destination, .mode = AccessMode::kWrite}};
  submit(copy_items, "copy", std::as_bytes(std::span(&params, 1)), num_byte_items(source.bytes), accesses);
}

void CpuCommandList::fill(const BufferView& destination, uint32_t pattern) {
  check_fill(destination);
  if (destination.bytes == 0) return;
  const FillParams params{.destination = destination.address(), .bytes = destination.bytes, .pattern = pattern};
  const std::array accesses{Access{.view = destination, .mode = AccessMode::kWrite}};
  submit(fill_items, "fill", std::as_bytes(std::span(&params, 1)), num_byte_items(destination.bytes), accesses);
}

void ImmediateCommandList::submit(KernelFn kernel, std::string_view kernel_name, std::span<const std::byte> params,
                                  uint32_t num_items, std::span<const Access> /*accesses*/) {
  const size_t launch_idx = num_launches_++;
  if (fault_.raised()) return;
  const auto where = [&] {
    const std::string program = eager_label_ == nullptr ? "immediate" : "program '" + *eager_label_ + "'";
    return program + ", launch " + std::to_string(launch_idx) + " (" + std::string(kernel_name) +
           (label_.empty() ? "" : ", " + label_) + ")";
  };
  if (num_items == 1) {
    run_share(kernel, params.data(), num_items, 0, 1, fault_, where);
  } else {
    pool_.run(
        [&](int worker, int num_workers) { run_share(kernel, params.data(), num_items, worker, num_workers, fault_, where); });
  }
  if (eager_label_ == nullptr) return;
  if (const auto message = fault_.take()) throw Error(ErrorCode::kDeviceError, *message);
}

void RecordingCommandList::submit(KernelFn kernel, std::string_view kernel_name, std::span<const std::byte> params,
                                  uint32_t num_items, std::span<const Access> accesses) {
  program_.append(kernel, kernel_name, params, num_items, accesses);
}

}  // namespace foretoken::cpu
