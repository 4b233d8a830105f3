// What the CPU keeps of launches, and how it runs them.
#pragma once

#include <array>
#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/kernel_entry.h"
#include "backends/cpu/thread_pool.h"
#include "backends/program.h"
#include "core/error.h"
#include "core/op_schema.h"

namespace foretoken::cpu {

/// One launch, ready to run.
struct CpuLaunch {
  KernelFn function = nullptr;
  const void* params = nullptr;
  uint32_t num_items = 0;
  bool is_heavy = false;        // its items are claimed as workers come to them (ItemClaims)
  bool barrier_before = false;  // it needs what an earlier launch, after the last barrier, did on another thread
  uint32_t label_idx = 0;       // into the labels of its program
  std::string_view kernel_name{};
};

/// The first thing that went wrong in a stream's work. Thread-safe.
class FaultSlot {
 public:
  [[nodiscard]] bool raised() const { return raised_.load(std::memory_order_relaxed); }
  /// Keeps `message` unless something is kept already.
  void raise(const std::string& message);
  /// Takes the message out; nothing when nothing went wrong.
  [[nodiscard]] std::optional<std::string> take();
  [[nodiscard]] std::optional<std::string> peek() const;

 private:
  std::atomic<bool> raised_{false};
  mutable std::mutex mutex_;
  std::string message_;
};

/// Finds out which launches must wait for those before them.
class HazardTracker {
 public:
  /// Whether a launch with these accesses needs a barrier before it: one of them writes bytes that a launch since the last
  /// barrier touches, or reads bytes that one wrote. Launches of one item run on worker 0 in order and need none among
  /// themselves.
  [[nodiscard]] bool add(std::span<const Access> accesses, bool single_item);

 private:
  struct Range {
    DeviceAddress begin;
    DeviceAddress end;
    bool writes;
    bool single_item;
  };
  boost::container::small_vector<Range, 32> since_barrier_;  // a handful of launches have no hazard among them
};

/// Items of a launch that workers claim range by range: cores that share their hardware with others do not get equally far in the
/// same time. Ranges become shorter towards the end, for a kernel may prepare something at the start of each. Thread-safe.
class ItemClaims {
 public:
  struct Range {
    uint32_t begin;
    uint32_t end;
  };
  /// The next range, empty when nothing is left. `replay`: a number that the launch had in no replay before.
  [[nodiscard]] Range claim(uint32_t replay, uint32_t num_items, int num_workers);

 private:
  alignas(64) std::atomic<uint64_t> state_{0};  // replay << 32 | first item that nobody has
};

/// A recording: launches with their parameters in one block of memory.
class CpuProgram final : public ProgramBody {
 public:
  using ProgramBody::ProgramBody;

  [[nodiscard]] size_t num_launches() const override { return launches_.size(); }
  [[nodiscard]] std::span<const CpuLaunch> launches() const { return launches_; }
  [[nodiscard]] const std::string& launch_label(const CpuLaunch& launch) const { return labels_[launch.label_idx]; }
  /// Barriers that one replay passes, the one at its end left out.
  [[nodiscard]] size_t num_barriers() const;

  /// For the recording list only, before the first replay.
  void append(KernelFn kernel, std::string_view kernel_name, std::span<const std::byte> params, uint32_t num_items,
              std::span<const Access> accesses);
  void begin_label(std::string_view text) { labels_.emplace_back(text); }
  void finish();

  /// Runs all launches inside one parallel region of `pool`; nothing when `fault` is raised already. An exception that leaves a
  /// launch is put into `fault`, and the launches after it are left out.
  void replay(ThreadPool& pool, FaultSlot& fault) const;

 private:
  struct alignas(64) ParamsBlock {
    std::array<std::byte, 64> bytes;
  };

  /// `pool`: null outside a region, where one worker needs no barriers.
  void run_worker(ThreadPool* pool, FaultSlot& fault, uint32_t replay, int worker, int num_workers) const;

  std::vector<CpuLaunch> launches_;
  std::vector<size_t> first_block_;  // of each launch; pointers are set when the arena no longer grows
  std::vector<ParamsBlock> arena_;
  std::vector<std::string> labels_{std::string()};
  HazardTracker hazards_;
  std::unique_ptr<ItemClaims[]> claims_;  // of each launch
  mutable std::atomic<uint32_t> num_replays_{0};
  bool single_worker_ = true;  // no launch has more than one item
};

/// Calls kernel(params, begin, end). What it throws goes into `fault`, after `where()`.
template <class Where>
void run_items(KernelFn kernel, const void* params, uint32_t begin, uint32_t end, FaultSlot& fault, const Where& where) {
  try {
    kernel(params, begin, end);
  } catch (const std::exception& error) {
    fault.raise(where() + ": " + error.what());
  } catch (...) {
    fault.raise(where() + ": unknown exception");
  }
}

/// Runs worker `worker`'s share of a launch: its static part of the items, or all of them on worker 0 when there is only one.
template <class Where>
void run_share(KernelFn kernel, const void* params, uint32_t num_items, int worker, int num_workers, FaultSlot& fault,
               const Where& where) {
  const auto count = static_cast<uint64_t>(num_items);
  auto begin = static_cast<uint32_t>(count * worker / num_workers);
  auto end = static_cast<uint32_t>(count * (worker + 1) / num_workers);
  if (num_items == 1) {
    begin = 0;
    end = worker == 0 ? 1 : 0;
  }
  if (begin != end) run_items(kernel, params, begin, end, fault, where);
}

}  // namespace foretoken::cpu
