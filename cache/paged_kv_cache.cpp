#include "cache/paged_kv_cache.h"

#include <string>

#include "core/error.h"

namespace foretoken {
namespace {

/// Bytes of K (or V) of one layer.
size_t side_bytes(const PagedKvCacheConfig& config) {
  const Shape shape{config.num_blocks, config.block_size, config.num_key_value_heads, config.head_dim};
  return dtype_bytes(config.dtype, static_cast<size_t>(shape.num_elements()));
}

PagedKvCacheConfig checked(const PagedKvCacheConfig& config) {
  if (config.dtype != DType::kF32 && config.dtype != DType::kBF16) {
    throw Error(ErrorCode::kUnsupported,
                {.what = "dtype of a KV cache", .expected = "F32 or BF16", .got = std::string(to_string(config.dtype))});
  }
  if (config.block_size <= 0 || config.num_layers < 0 || config.num_key_value_heads <= 0 || config.head_dim <= 0) {
    throw Error(ErrorCode::kInvalidArgument, "a KV cache needs positive block size, heads and head dimension");
  }
  return config;
}

}  // namespace

PagedKvCache::PagedKvCache(GpuBackend& backend, const PagedKvCacheConfig& config)
    : config_(checked(config)), pool_(config.num_blocks), memory_(backend.allocate(bytes_for(config))) {}

size_t PagedKvCache::bytes_for(const PagedKvCacheConfig& config) {
  return 2 * static_cast<size_t>(config.num_layers) * side_bytes(config);
}

PagedKvView PagedKvCache::layer(int64_t layer_idx) const {
  const Shape shape{config_.num_blocks, config_.block_size, config_.num_key_value_heads, config_.head_dim};
  const size_t side = side_bytes(config_);
  const size_t begin = 2 * static_cast<size_t>(layer_idx) * side;
  return {.k_cache = memory_.tensor(config_.dtype, shape, begin), .v_cache = memory_.tensor(config_.dtype, shape, begin + side)};
}

BlockTable PagedKvCache::create_table() { return BlockTable(pool_, config_.block_size, config_.max_blocks_per_seq); }

}  // namespace foretoken
