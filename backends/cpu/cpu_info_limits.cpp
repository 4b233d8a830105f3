#include "backends/cpu/cpu_info_limits.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace foretoken::cpu {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

std::optional<uint64_t> parse_number(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;  // "max", "-1"
  return value;
}

/// The first word of a file as a number; nothing when there is no such file or the word is no number.
std::optional<uint64_t> read_number(const fs::path& file) {
  std::ifstream in(file);
  std::string word;
  if (!(in >> word)) return std::nullopt;
  return parse_number(word);
}

/// The number after `key` at the start of a line ("MemTotal:", "inactive_file").
std::optional<uint64_t> read_field(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string first;
    std::string second;
    if (words >> first >> second && first == key) return parse_number(second);
  }
  return std::nullopt;
}

/// Folders of the control groups of this process for one controller, of both kernel interfaces, innermost first. Some may not
/// exist: a container sees paths of its host.
std::vector<fs::path> cgroup_folders(const std::string& controller) {
  std::vector<fs::path> folders;
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first, second - first + 1);  // ":cpu,cpuacct:"
    fs::path root;
    if (controllers == "::") {
      root = "/sys/fs/cgroup";
    } else if (std::regex_search(controllers, std::regex("[:,]" + controller + "[:,]"))) {
      root = fs::path("/sys/fs/cgroup") / controller;
    } else {
      continue;
    }
    for (fs::path path = fs::path(line.substr(second + 1)).relative_path();; path = path.parent_path()) {
      folders.push_back(root / path);
      if (path.empty()) break;
    }
  }
  return folders;
}

struct MemoryLimit {
  uint64_t total = kNoLimit;
  uint64_t free = kNoLimit;
};

MemoryLimit cgroup_memory() {
  MemoryLimit result;
  for (const fs::path& folder : cgroup_folders("memory")) {
    for (const auto& [limit_file, usage_file] :
         {std::pair{"memory.max", "memory.current"}, std::pair{"memory.limit_in_bytes", "memory.usage_in_bytes"}}) {
      const auto limit = read_number(folder / limit_file);
      const auto usage = read_number(folder / usage_file);
      if (!limit || !usage) continue;
      // The page cache counts as used but gives way.
      const uint64_t cache = read_field(folder / "memory.stat", "inactive_file").value_or(0) +
                             read_field(folder / "memory.stat", "active_file").value_or(0);
      const uint64_t held = *usage - std::min(*usage, cache);
      result.total = std::min(result.total, *limit);
      result.free = std::min(result.free, *limit - std::min(*limit, held));
    }
  }
  return result;
}

uint64_t meminfo_bytes(const std::string& key) { return read_field("/proc/meminfo", key).value_or(kNoLimit / 1024) * 1024; }

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  for (int capacity = 1024; capacity <= 1 << 16; capacity *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(capacity));
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(capacity));
    const bool fits = sched_getaffinity(0, bytes, set) == 0;
    for (int cpu = 0; fits && cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set)) cpus.push_back(cpu);
    }
    CPU_FREE(set);
    if (fits) break;
  }
  return cpus;
}

/// CPUs that the quota allows at a time, rounded up; nothing without a quota.
std::optional<uint64_t> cpu_quota() {
  std::optional<uint64_t> lowest;
  const auto take = [&lowest](std::optional<uint64_t> quota, std::optional<uint64_t> period) {
    if (!quota || !period || *quota == 0 || *period == 0) return;
    const uint64_t cpus = (*quota + *period - 1) / *period;
    lowest = std::min(lowest.value_or(cpus), cpus);
  };
  for (const fs::path& folder : cgroup_folders("cpu")) {
    std::ifstream in(folder / "cpu.max");
    std::string quota;
    std::string period;
    if (in >> quota >> period) take(parse_number(quota), parse_number(period));
    take(read_number(folder / "cpu.cfs_quota_us"), read_number(folder / "cpu.cfs_period_us"));
  }
  return lowest;
}

}  // namespace

int usable_cores() {
  std::set<std::pair<uint64_t, uint64_t>> cores;  // {package, core}; hyper-threads share one
  for (const int cpu : allowed_cpus()) {
    const fs::path topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology";
    const auto package = read_number(topology / "physical_package_id");
    const auto core = read_number(topology / "core_id");
    cores.insert(package && core ? std::pair{*package, *core} : std::pair{kNoLimit, static_cast<uint64_t>(cpu)});
  }
  const uint64_t count = std::max<uint64_t>(cores.size(), 1);
  return static_cast<int>(std::min(count, cpu_quota().value_or(count)));
}

uint64_t total_memory_bytes() { return std::min(meminfo_bytes("MemTotal:"), cgroup_memory().total); }

uint64_t available_memory_bytes() { return std::min(meminfo_bytes("MemAvailable:"), cgroup_memory().free); }

}  // namespace foretoken::cpu
