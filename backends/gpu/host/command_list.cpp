#include "backends/gpu/host/command_list.h"

#include <array>
#include <utility>

#include "backends/gpu/host/error.h"
#include "backends/gpu/host/kernel_module.h"
#include "backends/view_checks.h"
#include "core/error.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {
namespace {

constexpr uint32_t kMaxGridX = 0x7fffffffU;
constexpr uint32_t kMaxGridYz = 65535;

void check_grid(const KernelCode& code, Grid grid) {
  if (grid.x <= kMaxGridX && grid.y <= kMaxGridYz && grid.z <= kMaxGridYz) return;
  throw Error(ErrorCode::kInvalidArgument,
              {.what = "launch of kernel " + code.name() + " with too large a grid",
               .expected = "at most " + std::to_string(kMaxGridX) + " x 65535 x 65535",
               .got = std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " + std::to_string(grid.z)});
}

const void* address_of(const BufferView& view) { return reinterpret_cast<const void*>(view.address()); }

}  // namespace

RuntimeCommandList::RuntimeCommandList(const ListContext& context, runtime::Stream stream, ListMode mode, std::string owner)
    : RefusesWhileRecording(mode == ListMode::kRecording),
      context_(context),
      stream_(stream),
      mode_(mode),
      owner_(std::move(owner)) {}

void RuntimeCommandList::launch(const KernelCode& code, Grid grid, std::span<const std::byte> params,
                                std::span<const Access> accesses) {
  const auto& kernel = checked_kernel<RuntimeKernelCode>(code, params);
  check_grid(code, grid);
  for (const Access& access : accesses) check_view(access.view, "operand of kernel " + code.name());
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;

  std::array<void*, 1> arguments{const_cast<std::byte*>(params.data())};
  const bool early = context_.programmatic_launch && may_start_early_;
  const runtime::Result result = runtime::launch(kernel.function(), grid, kernel.num_threads(), arguments.data(), stream_, early);
  if (result.failed()) check(result, where(code.name()));
  may_start_early_ = !kernel.makes_weights();
  launched(code.name());
}

void RuntimeCommandList::copy(const BufferView& source, const BufferView& destination) {
  check_copy(source, destination);
  if (source.bytes == 0) return;
  if (source.bytes <= gpu::kCopyBytes) {
    const std::array accesses{Access{.view = source, .mode = AccessMode::kRead},
                              Access{.view = destination, .mode = AccessMode::kWrite}};
    context_.copy(*this, Grid{}, {.source = source.address(), .destination = destination.address(), .num_bytes = source.bytes},
                  accesses);
    return;
  }
  check(runtime::copy_async(reinterpret_cast<void*>(destination.address()), address_of(source), source.bytes, stream_));
  launched("copy");
}

void RuntimeCommandList::fill(const BufferView& destination, uint32_t pattern) {
  check_fill(destination);
  if (destination.bytes == 0) return;
  const gpu::FillParams params{
      .destination = destination.address(), .num_bytes = destination.bytes, .pattern = pattern, .reserved = 0};
  const std::array accesses{Access{.view = destination, .mode = AccessMode::kWrite}};
  context_.fill(*this, Grid{gpu::fill_groups(destination.bytes)}, params, accesses);
}

void RuntimeCommandList::launched(std::string_view what) {
  ++num_launches_;
  if (mode_ != ListMode::kSynchronous) return;
  const runtime::Result result = runtime::synchronize(stream_);
  if (result.failed()) check(result, where(what));
}

std::string RuntimeCommandList::where(std::string_view what) const {
  return owner_ + ", launch " + std::to_string(num_launches_) + " (" + std::string(what) + (label_.empty() ? "" : ", " + label_) +
         ")";
}

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
