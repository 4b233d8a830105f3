// Field report 26: rows of a verify step that each read the whole cache. The kernels are watched at work: the cache lies in pages
// that nobody may touch, and a fault opens one page and closes the one that was open before, so a page's faults are how often
// somebody came to it.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <stdexcept>

#include "tests/unit/cpu_kernels/isa_test.h"

namespace foretoken::cpu {
namespace {

/// One page is open at a time. For one thread.
class WatchedPages final : public BufferHandle {
 public:
  explicit WatchedPages(size_t num_pages) : page_bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))), visits_(num_pages) {
    void* memory = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("mmap failed");
    memory_ = static_cast<std::byte*>(memory);
  }
  ~WatchedPages() override { munmap(memory_, bytes()); }
  WatchedPages(const WatchedPages&) = delete;
  WatchedPages& operator=(const WatchedPages&) = delete;

  [[nodiscard]] size_t page_bytes() const { return page_bytes_; }
  [[nodiscard]] size_t bytes() const override { return visits_.size() * page_bytes_; }
  [[nodiscard]] DeviceAddress address() const override { return reinterpret_cast<DeviceAddress>(memory_); }
  [[nodiscard]] MemoryKind kind() const override { return MemoryKind::kHostVisible; }
  [[nodiscard]] std::byte* host_data() const override { return memory_; }
  [[nodiscard]] const std::vector<int>& visits() const { return visits_; }

  void close() {
    std::fill(visits_.begin(), visits_.end(), 0);
    mprotect(memory_, bytes(), PROT_NONE);
    open_ = nullptr;
  }
  void open_all() { mprotect(memory_, bytes(), PROT_READ | PROT_WRITE); }
  /// False for an address elsewhere.
  bool visit(const void* at) {
    const auto* byte = static_cast<const std::byte*>(at);
    if (byte < memory_ || byte >= memory_ + bytes()) return false;
    const size_t page = static_cast<size_t>(byte - memory_) / page_bytes_;
    if (open_ != nullptr) mprotect(open_, page_bytes_, PROT_NONE);
    open_ = memory_ + page * page_bytes_;
    mprotect(open_, page_bytes_, PROT_READ);
    ++visits_[page];
    return true;
  }

 private:
  size_t page_bytes_;
  std::vector<int> visits_;
  std::byte* memory_ = nullptr;
  std::byte* open_ = nullptr;
};

std::array<WatchedPages*, 2> watched{};

void on_fault(int signal, siginfo_t* info, void*) {
  for (WatchedPages* pages : watched) {
    if (pages != nullptr && pages->visit(info->si_addr)) return;
  }
  std::signal(signal, SIG_DFL);  // not ours: the access that is tried again ends the program
}

/// Both are closed while this lives.
class Watch {
 public:
  Watch(WatchedPages& keys, WatchedPages& values) {
    watched = {&keys, &values};
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &old_action_);
    for (WatchedPages* pages : watched) pages->close();
  }
  ~Watch() {
    for (WatchedPages* pages : watched) pages->open_all();
    sigaction(SIGSEGV, &old_action_, nullptr);
    watched = {};
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  struct sigaction old_action_ {};
};

class AttentionReadsTest : public IsaTest {
 protected:
  static constexpr int64_t kHeadDim = 64;
  static constexpr int64_t kQueryHeads = 4;

  /// Visits of each page of keys and values while `num_rows` rows of a sequence with `context` positions attend.
  static std::vector<int> visits(Isa isa, DType dtype, int64_t num_rows, int64_t context) {
    const auto page = static_cast<int64_t>(sysconf(_SC_PAGESIZE));
    const int64_t positions_per_page = page / (kHeadDim * static_cast<int64_t>(dtype_bytes(dtype, 1)));
    const auto num_pages = static_cast<size_t>((context + positions_per_page - 1) / positions_per_page);
    WatchedPages keys(num_pages), values(num_pages);
    const Shape shape{static_cast<int64_t>(num_pages), positions_per_page, 1, kHeadDim};
    const auto cache = [&](WatchedPages& pages) { return Tensor(BufferView{&pages, 0, pages.bytes()}, dtype, shape); };
    const Ints table(DType::kI32, {1, static_cast<int64_t>(num_pages)});
    for (size_t i = 0; i < num_pages; ++i) table.data()[i] = static_cast<int32_t>(i);
    const Floats q = random_floats({num_rows, kQueryHeads, kHeadDim}, 3);
    const Floats gate = random_floats({num_rows, kQueryHeads, 2 * kHeadDim}, 4);
    const Floats out = zeros({num_rows, kQueryHeads, kHeadDim});
    const Floats scale(DType::kF32, {1}, {1.0F});
    const Tensor code_scale = dtype == DType::kE4M3 ? scale.tensor() : Tensor();
    {
      const Watch watch(keys, values);
      DirectList(isa).run(GatedAttention{.q = q,
                                         .q_gate = gate,
                                         .k_cache = cache(keys),
                                         .v_cache = cache(values),
                                         .k_scale = code_scale,
                                         .v_scale = code_scale,
                                         .block_table = table,
                                         .seq_lens = ints({static_cast<int32_t>(context)}),
                                         .query_start_loc = ints({0, static_cast<int32_t>(num_rows)}),
                                         .out = out,
                                         .workspace = {},
                                         .scale = 0.125F,
                                         .max_seq_len = context});
    }
    std::vector<int> all = keys.visits();
    all.insert(all.end(), values.visits().begin(), values.visits().end());
    return all;
  }
};
FORETOKEN_ISA_TESTS(AttentionReadsTest);

TEST_P(AttentionReadsTest, RowsOfAVerifyStepReadTheCacheOnce) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kE4M3}) {
    constexpr int64_t kContext = 1024;
    const std::vector<int> of_one_row = visits(GetParam(), dtype, 1, kContext);
    ASSERT_EQ(of_one_row, std::vector<int>(of_one_row.size(), 1)) << to_string(dtype);
    for (const int64_t rows : {2, 5, 9, 16}) {
      EXPECT_EQ(visits(GetParam(), dtype, rows, kContext), of_one_row) << rows << " rows, " << to_string(dtype);
    }
  }
}

/// The watch sees more than one visit where there are some: a prompt's rows go in groups.
TEST_P(AttentionReadsTest, GroupsOfAPromptReadTheCacheOnceEach) {
  constexpr int64_t kRows = 64;  // four groups of 16
  EXPECT_EQ(visits(GetParam(), DType::kBF16, kRows, 1024).front(), 4);
}

}  // namespace
}  // namespace foretoken::cpu
