#include "apps/foretoken/bandwidth.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "apps/foretoken/spread.h"
#include "core/error.h"

namespace foretoken::cli {
namespace {

constexpr size_t kMinBytes = size_t{1} << 30;  // far beyond any cache
constexpr size_t kMinBytesPerThread = size_t{128} << 20;
constexpr size_t kPageBytes = size_t{2} << 20;  // a huge page
constexpr size_t kPasses = 12;

using Clock = std::chrono::steady_clock;

/// When a thread began and ended a pass.
struct Span {
  Clock::time_point from;
  Clock::time_point to;
};

using Line = uint64_t __attribute__((vector_size(64), may_alias));

/// Combines all lines of [data, data + bytes); the result only keeps the reads alive. Inlined into one function per instruction
/// set, which decides how wide the loads are.
[[gnu::always_inline]] inline uint64_t combine_lines(const std::byte* data, size_t bytes) {
  constexpr size_t kStreams = 4;  // of the prefetchers
  const size_t stream_lines = bytes / sizeof(Line) / kStreams;
  const auto* lines = reinterpret_cast<const Line*>(data);
  Line sums[kStreams] = {};
  for (size_t i = 0; i < stream_lines; ++i) {
    for (size_t s = 0; s < kStreams; ++s) sums[s] ^= lines[s * stream_lines + i];
  }
  uint64_t sum = 0;
  for (const Line& line : sums) {
    for (size_t i = 0; i < sizeof(Line) / sizeof(uint64_t); ++i) sum ^= line[i];
  }
  return sum;
}

using ReadFn = uint64_t (*)(const std::byte* data, size_t bytes);

uint64_t read_plain(const std::byte* data, size_t bytes) { return combine_lines(data, bytes); }

#ifdef __x86_64__
[[gnu::target("avx2")]] uint64_t read_avx2(const std::byte* data, size_t bytes) { return combine_lines(data, bytes); }
[[gnu::target("avx512f")]] uint64_t read_avx512(const std::byte* data, size_t bytes) { return combine_lines(data, bytes); }
#endif

ReadFn widest_read() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") != 0) return read_avx512;
  if (__builtin_cpu_supports("avx2") != 0) return read_avx2;
#endif
  return read_plain;
}

/// Runs work(thread, a barrier of all) in `count` threads and waits for them.
template <class Work>
void run_threads(size_t count, const Work& work) {
  std::barrier<> together(static_cast<std::ptrdiff_t>(count));
  std::vector<std::jthread> threads;
  threads.reserve(count);
  try {
    for (size_t t = 0; t < count; ++t) threads.emplace_back(work, t, std::ref(together));
  } catch (const std::system_error& error) {
    for (size_t missing = threads.size(); missing < count; ++missing) together.arrive_and_drop();  // lets the others end
    throw Error(ErrorCode::kOutOfMemory, std::string("no more threads to measure the memory bandwidth with: ") + error.what());
  }
}

}  // namespace

/// Anonymous memory from a huge page on, on huge pages where the system has them.
class ReadMeter::Mapping {
 public:
  explicit Mapping(size_t bytes) : bytes_(bytes + kPageBytes) {
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      throw Error(ErrorCode::kOutOfMemory, "no " + std::to_string(bytes_ >> 20) + " MiB to measure the memory bandwidth with");
    }
    data_ = static_cast<std::byte*>(memory);
    madvise(data_, bytes_, MADV_HUGEPAGE);
  }
  ~Mapping() { munmap(data_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  [[nodiscard]] std::byte* begin() const {
    return data_ + (kPageBytes - reinterpret_cast<uintptr_t>(data_) % kPageBytes) % kPageBytes;
  }

 private:
  size_t bytes_;
  std::byte* data_ = nullptr;
};

ReadMeter::ReadMeter(int num_threads)
    : num_threads_(static_cast<size_t>(std::max(num_threads, 1))),
      part_bytes_((std::max(kMinBytes / num_threads_, kMinBytesPerThread) + kPageBytes - 1) / kPageBytes * kPageBytes),
      mapping_(std::make_unique<Mapping>(part_bytes_ * num_threads_)) {
  run_threads(num_threads_, [&](size_t thread, const std::barrier<>&) {
    std::fill_n(mapping_->begin() + thread * part_bytes_, part_bytes_, std::byte{1});  // each in a thread, so that it lies near
  });
}

ReadMeter::~ReadMeter() = default;

double ReadMeter::measure() {
  // Every thread takes its own times: one that only waits for them may run late, where all cores are at work, and miss a part.
  const ReadFn read = widest_read();
  std::atomic<uint64_t> sink{0};
  std::vector<std::array<Span, kPasses>> spans(num_threads_);
  run_threads(num_threads_, [&](size_t thread, std::barrier<>& together) {
    for (Span& span : spans[thread]) {
      together.arrive_and_wait();
      span.from = Clock::now();
      sink += read(mapping_->begin() + thread * part_bytes_, part_bytes_);
      span.to = Clock::now();
    }
  });
  std::array<double, kPasses> seconds{};
  for (size_t pass = 0; pass < kPasses; ++pass) {
    Span all = spans[0][pass];
    for (const auto& of_thread : spans) {
      all.from = std::min(all.from, of_thread[pass].from);
      all.to = std::max(all.to, of_thread[pass].to);
    }
    seconds[pass] = std::chrono::duration<double>(all.to - all.from).count();
  }
  return static_cast<double>(part_bytes_ * num_threads_) / spread_of({seconds.begin(), seconds.end()}).median;
}

uint64_t last_level_cache_bytes() {
  // What sysconf says counts every cache of the package, also those that a virtual machine has no part in.
  const std::filesystem::path cpus = "/sys/devices/system/cpu";
  std::map<std::string, uint64_t> caches;  // by the cores that share one
  for (unsigned cpu = 0; cpu < std::thread::hardware_concurrency(); ++cpu) {
    for (int index = 4; index >= 0; --index) {  // the last that is there
      const auto folder = cpus / ("cpu" + std::to_string(cpu)) / "cache" / ("index" + std::to_string(index));
      std::ifstream size_file(folder / "size");
      uint64_t kibibytes = 0;
      if (!(size_file >> kibibytes)) continue;
      std::string cores;
      std::ifstream(folder / "shared_cpu_list") >> cores;
      caches[cores] = kibibytes << 10;
      break;
    }
  }
  uint64_t bytes = 0;
  for (const auto& [cores, size] : caches) bytes += size;
  return bytes == 0 ? uint64_t{64} << 20 : bytes;
}

}  // namespace foretoken::cli
