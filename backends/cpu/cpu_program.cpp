#include "backends/cpu/cpu_program.h"

#include <algorithm>
#include <cstring>

namespace foretoken::cpu {
namespace {

/// A launch that touches less, which takes two cores some 60 us, is over before claims have paid.
constexpr size_t kHeavyBytes = size_t{7} << 18;
/// Items for each worker, below which ranges would be too uneven to be worth claiming.
constexpr uint32_t kMinItemsPerWorker = 8;

bool is_heavy(std::span<const Access> accesses) {
  size_t bytes = 0;
  for (const Access& access : accesses) bytes += access.view.bytes;
  return bytes >= kHeavyBytes;
}

}  // namespace

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

ItemClaims::Range ItemClaims::claim(uint32_t replay, uint32_t num_items, int num_workers) {
  const auto workers = static_cast<uint32_t>(num_workers);
  const uint32_t shortest = std::max(num_items / (16 * workers), 1U);
  uint64_t state = state_.load(std::memory_order_relaxed);
  for (;;) {
    const uint32_t begin = state >> 32 == replay ? static_cast<uint32_t>(state) : 0;
    const uint32_t left = num_items - begin;
    const uint32_t end = begin + std::min(std::max(left / (2 * workers), shortest), left);
    if (begin == end) return {.begin = begin, .end = end};
    // Results are passed on by barriers, not by this.
    if (state_.compare_exchange_weak(state, uint64_t{replay} << 32 | end, std::memory_order_relaxed)) {
      return {.begin = begin, .end = end};
    }
  }
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
                       .is_heavy = is_heavy(accesses),
                       .barrier_before = hazards_.add(accesses, num_items == 1),
                       .label_idx = static_cast<uint32_t>(labels_.size() - 1),
                       .kernel_name = kernel_name});
  single_worker_ = single_worker_ && num_items == 1;
}

void CpuProgram::finish() {
  claims_ = std::make_unique<ItemClaims[]>(launches_.size());
  for (size_t i = 0; i < launches_.size(); ++i) launches_[i].params = arena_.data() + first_block_[i];
}

void CpuProgram::replay(ThreadPool& pool, FaultSlot& fault) const {
  if (fault.raised() || launches_.empty()) return;
  const uint32_t replay = num_replays_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (single_worker_) {
    run_worker(nullptr, fault, replay, 0, 1);
  } else {
    pool.run([&](int worker, int num_workers) { run_worker(&pool, fault, replay, worker, num_workers); });
  }
}

void CpuProgram::run_worker(ThreadPool* pool, FaultSlot& fault, uint32_t replay, int worker, int num_workers) const {
  for (size_t i = 0; i < launches_.size(); ++i) {
    const CpuLaunch& launch = launches_[i];
    if (launch.barrier_before && pool != nullptr) pool->barrier(worker);
    if (fault.raised()) continue;  // barriers are passed all the same: the others wait there
    const auto where = [&] {
      const std::string& text = launch_label(launch);
      return "program '" + label() + "', launch " + std::to_string(i) + " (" + std::string(launch.kernel_name) +
             (text.empty() ? "" : ", " + text) + ")";
    };
    if (!launch.is_heavy || num_workers == 1 || launch.num_items / kMinItemsPerWorker < static_cast<uint32_t>(num_workers)) {
      run_share(launch.function, launch.params, launch.num_items, worker, num_workers, fault, where);
      continue;
    }
    for (;;) {
      const ItemClaims::Range range = claims_[i].claim(replay, launch.num_items, num_workers);
      if (range.begin == range.end) break;
      run_items(launch.function, launch.params, range.begin, range.end, fault, where);
    }
  }
}

}  // namespace foretoken::cpu
