#include "backends/cpu/cpu_program.h"

#include <algorithm>
#include <cstring>

namespace foretoken::cpu {

void FaultSlot::raise(const std::string& message) {
  const std::scoped_lock lock(mutex_);
  if (raised_.load(std::memory_order_relaxed)) return;
  message_ = message;
  raised_.store(true, std::memory_order_relaxed);
}

std::optional<std::string> FaultSlot::take() {
  const std::scoped_lock lock(mutex_);
  if (!raised_.load(std::memory_order_relaxed)) return std::nullopt;
  raised_.store(false, std::memory_order_relaxed);
  return std::move(message_);
}

std::optional<std::string> FaultSlot::peek() const {
  const std::scoped_lock lock(mutex_);
  if (!raised_.load(std::memory_order_relaxed)) return std::nullopt;
  return message_;
}

bool HazardTracker::add(std::span<const Access> accesses, bool single_item) {
  bool hazard = false;
  std::vector<Range> ranges;
  ranges.reserve(accesses.size());
  for (const Access& access : accesses) {
    if (access.view.bytes == 0) continue;
    const DeviceAddress begin = access.view.address();
    const Range range{
        .begin = begin, .end = begin + access.view.bytes, .writes = access.mode != AccessMode::kRead, .single_item = single_item};
    hazard = hazard || std::ranges::any_of(since_barrier_, [&](const Range& earlier) {
               return earlier.begin < range.end && range.begin < earlier.end && (earlier.writes || range.writes) &&
                      !(earlier.single_item && range.single_item);
             });
    ranges.push_back(range);
  }
  if (hazard) since_barrier_.clear();
  since_barrier_.insert(since_barrier_.end(), ranges.begin(), ranges.end());
  return hazard;
}

size_t CpuProgram::num_barriers() const {
  return static_cast<size_t>(std::ranges::count_if(launches_, &CpuLaunch::barrier_before));
}

void CpuProgram::append(KernelFn kernel, std::string_view kernel_name, std::span<const std::byte> params, uint32_t num_items,
                        std::span<const Access> accesses) {
  const size_t num_blocks = (params.size() + sizeof(ParamsBlock) - 1) / sizeof(ParamsBlock);
  first_block_.push_back(arena_.size());
  arena_.resize(arena_.size() + num_blocks);
  if (!params.empty()) std::memcpy(&arena_[first_block_.back()], params.data(), params.size());
  launches_.push_back({.function = kernel,
                       .num_items = num_items,
                       .barrier_before = hazards_.add(accesses, num_items == 1),
                       .label_idx = static_cast<uint32_t>(labels_.size() - 1),
                       .kernel_name = kernel_name});
  single_worker_ = single_worker_ && num_items == 1;
}

void CpuProgram::finish() {
  for (size_t i = 0; i < launches_.size(); ++i) launches_[i].params = arena_.data() + first_block_[i];
}

void CpuProgram::replay(ThreadPool& pool, FaultSlot& fault) const {
  if (fault.raised() || launches_.empty()) return;
  if (single_worker_) {
    run_worker(nullptr, fault, 0, 1);
  } else {
    pool.run([&](int worker, int num_workers) { run_worker(&pool, fault, worker, num_workers); });
  }
}

void CpuProgram::run_worker(ThreadPool* pool, FaultSlot& fault, int worker, int num_workers) const {
  for (const CpuLaunch& launch : launches_) {
    if (launch.barrier_before && pool != nullptr) pool->barrier(worker);
    if (fault.raised()) continue;  // barriers are passed all the same: the others wait there
    run_share(launch.function, launch.params, launch.num_items, worker, num_workers, fault, [&] {
      const std::string& text = launch_label(launch);
      return "program '" + label() + "', launch " + std::to_string(&launch - launches_.data()) + " (" +
             std::string(launch.kernel_name) + (text.empty() ? "" : ", " + text) + ")";
    });
  }
}

}  // namespace foretoken::cpu
