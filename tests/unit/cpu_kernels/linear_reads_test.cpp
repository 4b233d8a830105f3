// Field report 23: a cliff where the rows of a verify step outnumber what a kernel takes at once. Here no number of rows reads a
// weight twice: pages of a weight are watched, beside a window of them that any cache holds.
#include "core/ops/linear.h"

#include "tests/unit/cpu_kernels/isa_test.h"
#include "tests/unit/cpu_kernels/watched_pages.h"

namespace foretoken::cpu {
namespace {

constexpr int64_t kColumns = 1024;
constexpr int64_t kRows = 512;
constexpr size_t kWindow = 80;  // pages, far fewer than a weight has: 320 KiB, as a second-level cache holds
constexpr int64_t kMaxVerifyRows = 16;

class LinearReadsTest : public IsaTest {
 protected:
  /// Visits of each page of the weight.
  template <class Op>
  static std::vector<int> visits(Isa isa, WeightFormat format, int64_t num_rows) {
    const DType dtype = code_dtype(format);
    const size_t bytes = dtype_bytes(dtype, static_cast<size_t>(kRows * kColumns));
    WatchedPages pages(bytes / WatchedPages::page_bytes(), kWindow);
    const Floats scale(DType::kF32, {kRows}, std::vector<float>(static_cast<size_t>(kRows), 1.0F));
    const LinearWeight weight{.weight = Tensor(BufferView{&pages, 0, pages.bytes()}, dtype, {kRows, kColumns}),
                              .scale = format == WeightFormat::kFp8Row ? scale.tensor() : Tensor(),
                              .global_scale = {},
                              .format = format};
    const Floats x = random_floats({num_rows, kColumns}, 1), out = zeros({num_rows, kRows});
    const Ints token_ids(DType::kI32, {num_rows});
    const Watch watch({&pages});
    if constexpr (std::is_same_v<Op, LinearArgmax>) {
      DirectList(isa).run(LinearArgmax{.x = x, .w = weight, .token_ids = token_ids, .logprobs = {}, .workspace = {}});
    } else {
      DirectList(isa).run(Linear{.x = x, .w = weight, .out = out, .workspace = {}});
    }
    return pages.visits();
  }

  template <class Op>
  static void expect_one_read(Isa isa) {
    for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kFp8Row}) {
      for (int64_t rows = 1; rows <= kMaxVerifyRows; ++rows) {
        const std::vector<int> found = visits<Op>(isa, format, rows);
        EXPECT_EQ(found, std::vector<int>(found.size(), 1)) << rows << " rows, " << to_string(format);
      }
    }
  }
};
FORETOKEN_ISA_TESTS(LinearReadsTest);

TEST_P(LinearReadsTest, ProjectionsReadTheirWeightOnceForAllRowsOfAVerifyStep) { expect_one_read<Linear>(GetParam()); }

TEST_P(LinearReadsTest, TheLmHeadReadsItsWeightOnceForAllRowsOfAVerifyStep) { expect_one_read<LinearArgmax>(GetParam()); }

}  // namespace
}  // namespace foretoken::cpu
