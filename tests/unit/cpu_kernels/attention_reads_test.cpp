// Field report 26: rows of a verify step that each read the whole cache. The kernels are watched at work: how often do they come
// to each page of the cache?
#include "tests/unit/cpu_kernels/isa_test.h"
#include "tests/unit/cpu_kernels/watched_pages.h"

namespace foretoken::cpu {
namespace {

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
      const Watch watch({&keys, &values});
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
