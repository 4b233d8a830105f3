// Paged key and value memory of a stack of attention layers, all reserved at construction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "cache/block_pool.h"
#include "cache/block_table.h"
#include "core/kv_view.h"

namespace foretoken {

struct PagedKvCacheConfig {
  int64_t num_layers = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  DType dtype = DType::kBF16;  // F32, BF16 or E4M3
  int32_t block_size = 16;     // positions per block
  int32_t num_blocks = 0;
  int32_t max_blocks_per_seq = 0;
};

/// Blocks are shared by all layers: block b of every layer belongs to the same positions. Not thread-safe.
class PagedKvCache {
 public:
  /// Allocates everything. Throws OutOfMemory (nothing left allocated) or InvalidArgument.
  PagedKvCache(GpuBackend& backend, const PagedKvCacheConfig& config);

  [[nodiscard]] const PagedKvCacheConfig& config() const { return config_; }
  [[nodiscard]] PagedKvView layer(int64_t layer_idx) const;
  /// The scales of an E4M3 cache, layer by layer: to be set before anything is written to it, since they say what codes mean.
  /// Their addresses never change. Throws InvalidState for another dtype; InvalidArgument for another number of layers or a
  /// scale that is not positive and finite.
  void set_scales(Stream& stream, std::span<const KvScales> scales) const;
  [[nodiscard]] BlockPool& pool() { return pool_; }
  [[nodiscard]] const BlockPool& pool() const { return pool_; }
  /// An empty table over this cache's blocks. The cache must outlive it.
  [[nodiscard]] BlockTable create_table();
  /// Copies block `source` of all layers to block `destination`, by work on `stream`. Throws InvalidArgument for blocks that do
  /// not exist or are the same.
  void copy_block(Stream& stream, int32_t source, int32_t destination) const;
  /// Appends the memory of `blocks`, layer by layer, K before V, in the order given: the pieces may be cut elsewhere for other
  /// blocks, their bytes have the same order. Throws InvalidArgument for a block that does not exist.
  void append_views(std::span<const int32_t> blocks, std::vector<BufferView>& views) const;
  [[nodiscard]] size_t bytes() const { return memory_.bytes(); }
  /// Memory that `config` takes: K and V of all layers and blocks, and the scales of E4M3.
  [[nodiscard]] static size_t bytes_for(const PagedKvCacheConfig& config);

 private:
  void check_block(int32_t block) const;

  PagedKvCacheConfig config_;
  BlockPool pool_;
  Buffer memory_;  // [num_layers, 2 (K, V), num_blocks, block_size, num_key_value_heads, head_dim], then scales [num_layers, 2]
};

}  // namespace foretoken
