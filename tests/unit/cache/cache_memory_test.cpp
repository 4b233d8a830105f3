#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "backends/registry.h"
#include "cache/metadata_buffer.h"
#include "cache/paged_kv_cache.h"
#include "cache/recurrent_state_store.h"
#include "core/error.h"

namespace foretoken {
namespace {

class CacheMemory : public ::testing::Test {
 protected:
  std::unique_ptr<GpuBackend> backend_ = BackendRegistry::instance().open("cpu", {.num_threads = 1});
  std::unique_ptr<Stream> stream_ = backend_->create_stream();
};

TEST_F(CacheMemory, LayersOfAKvCacheDoNotOverlap) {
  const PagedKvCacheConfig config{.num_layers = 3,
                                  .num_key_value_heads = 2,
                                  .head_dim = 64,
                                  .dtype = DType::kBF16,
                                  .block_size = 16,
                                  .num_blocks = 5,
                                  .max_blocks_per_seq = 5};
  PagedKvCache cache(*backend_, config);
  EXPECT_EQ(cache.bytes(), PagedKvCache::bytes_for(config));
  std::vector<Tensor> sides;
  for (int64_t i = 0; i < 3; ++i) {
    sides.push_back(cache.layer(i).k_cache);
    sides.push_back(cache.layer(i).v_cache);
  }
  for (size_t i = 0; i < sides.size(); ++i) {
    EXPECT_EQ(sides[i].shape(), (Shape{5, 16, 2, 64}));
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(sides[i].view().overlaps(sides[j].view()));
  }
}

TEST_F(CacheMemory, AnFp8CacheTakesAByteAnElementAndHasAScalePerLayerSide) {
  PagedKvCacheConfig config{.num_layers = 3,
                            .num_key_value_heads = 1,
                            .head_dim = 9,
                            .dtype = DType::kBF16,
                            .block_size = 5,
                            .num_blocks = 7,
                            .max_blocks_per_seq = 7};
  const size_t half = PagedKvCache::bytes_for(config);
  EXPECT_FALSE(PagedKvCache(*backend_, config).layer(0).k_scale) << "only codes have scales";
  config.dtype = DType::kE4M3;
  EXPECT_EQ(PagedKvCache::bytes_for(config), (half / 2 + 255) / 256 * 256 + 3 * 2 * sizeof(float));

  const PagedKvCache cache(*backend_, config);
  EXPECT_EQ(cache.bytes(), PagedKvCache::bytes_for(config));
  cache.set_scales(*stream_, std::array{KvScales{1.0F, 2.0F}, KvScales{3.0F, 4.0F}, KvScales{5.0F, 6.0F}});
  std::vector<float> read;
  std::vector<Tensor> parts;
  for (int64_t layer = 0; layer < 3; ++layer) {
    const PagedKvView view = cache.layer(layer);
    parts.insert(parts.end(), {view.k_cache, view.v_cache, view.k_scale, view.v_scale});
    for (const Tensor& scale : {view.k_scale, view.v_scale}) {
      float value = 0.0F;
      stream_->download(scale.view(), std::as_writable_bytes(std::span(&value, 1)));
      read.push_back(value);
    }
  }
  EXPECT_EQ(read, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  for (size_t i = 0; i < parts.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(parts[i].view().overlaps(parts[j].view()));
  }
}

TEST_F(CacheMemory, RefusesScalesThatCannotBe) {
  PagedKvCacheConfig config{.num_layers = 1, .num_key_value_heads = 1, .head_dim = 8, .dtype = DType::kE4M3, .num_blocks = 1};
  const PagedKvCache cache(*backend_, config);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const KvScales& scales : {KvScales{0.0F, 1.0F}, KvScales{1.0F, -1.0F}, KvScales{infinity, 1.0F}, KvScales{1.0F, NAN}}) {
    EXPECT_THROW(cache.set_scales(*stream_, std::span(&scales, 1)), Error) << scales.k << ", " << scales.v;
  }
  EXPECT_THROW(cache.set_scales(*stream_, std::array<KvScales, 2>{}), Error);
  config.dtype = DType::kF32;
  EXPECT_THROW(PagedKvCache(*backend_, config).set_scales(*stream_, std::array<KvScales, 1>{}), Error);
}

TEST_F(CacheMemory, RefusesDtypesWithoutAKvFormat) {
  EXPECT_THROW(
      PagedKvCache(*backend_, {.num_layers = 1, .num_key_value_heads = 1, .head_dim = 64, .dtype = DType::kI32, .num_blocks = 1}),
      Error);
  EXPECT_EQ(backend_->allocated_bytes(), 0U);
}

TEST_F(CacheMemory, AFreshStateSlotIsZeroAlsoAfterUse) {
  RecurrentStateStore store(*backend_, {.num_layers = 2,
                                        .num_slots = 2,
                                        .max_record_rows = 4,
                                        .conv_channels = 8,
                                        .num_value_heads = 2,
                                        .key_head_dim = 4,
                                        .value_head_dim = 4});
  const int32_t first = *store.allocate(*stream_);
  const Tensor state = store.layer(1).state.rows(first, 1);
  stream_->run([&](CommandList& cmd) { cmd.fill(state.view(), 0x7fc00000U); });
  store.release(first);
  EXPECT_THROW(store.release(first), Error);
  ASSERT_EQ(store.allocate(*stream_), first);
  std::vector<float> values(static_cast<size_t>(state.shape().num_elements()), 1.0F);
  stream_->download(state.view(), std::as_writable_bytes(std::span(values)));
  EXPECT_EQ(values, std::vector<float>(values.size(), 0.0F));
  EXPECT_TRUE(store.allocate(*stream_).has_value());
  EXPECT_FALSE(store.allocate(*stream_).has_value());
}

TEST_F(CacheMemory, MetadataArrivesInOneUploadAndOnlyWhenWritten) {
  MetadataBuffer metadata;
  const auto positions = metadata.add(DType::kI32, {3});
  const auto slots = metadata.add(DType::kI64, {2});
  const auto table = metadata.add(DType::kI32, {1, 8});
  metadata.allocate(*backend_);
  EXPECT_THROW(metadata.add(DType::kI32, {1}), Error);
  std::iota(metadata.i32(positions).begin(), metadata.i32(positions).end(), 5);
  metadata.i64(slots)[1] = -1;
  metadata.update(table, 1, std::array{8, 9});
  metadata.upload(*stream_);

  std::array<int64_t, 2> slot_values{};
  stream_->download(metadata.tensor(slots).view(), std::as_writable_bytes(std::span(slot_values)));
  EXPECT_EQ(slot_values[1], -1);
  std::array<int32_t, 8> table_values{};
  const auto read_table = [&] {
    stream_->download(metadata.tensor(table).view(), std::as_writable_bytes(std::span(table_values)));
    return table_values[2];
  };
  EXPECT_EQ(read_table(), 9);
  stream_->run([&](CommandList& cmd) { cmd.fill(metadata.tensor(table).view(), 7); });
  metadata.update(table, 1, std::array{8, 9});
  metadata.upload(*stream_);
  EXPECT_EQ(read_table(), 7) << "nothing was written that was not there";
  metadata.update(table, 0, std::array{1});
  metadata.upload(*stream_);
  EXPECT_EQ(read_table(), 9);
}

}  // namespace
}  // namespace foretoken
