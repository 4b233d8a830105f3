#include "cache/paged_kv_cache.h"

#include <cmath>
#include <string>

#include "core/error.h"

namespace foretoken {
namespace {

constexpr size_t kScaleAlignment = 256;  // bytes

/// Bytes of K (or V) of one layer.
size_t side_bytes(const PagedKvCacheConfig& config) {
  const Shape shape{config.num_blocks, config.block_size, config.num_key_value_heads, config.head_dim};
  return dtype_bytes(config.dtype, static_cast<size_t>(shape.num_elements()));
}

/// Where the scales of an E4M3 cache begin.
size_t scales_offset(const PagedKvCacheConfig& config) {
  const size_t bytes = 2 * static_cast<size_t>(config.num_layers) * side_bytes(config);
  return (bytes + kScaleAlignment - 1) / kScaleAlignment * kScaleAlignment;
}

PagedKvCacheConfig checked(const PagedKvCacheConfig& config) {
  if (config.dtype != DType::kF32 && config.dtype != DType::kBF16 && config.dtype != DType::kE4M3) {
    throw Error(ErrorCode::kUnsupported,
                {.what = "dtype of a KV cache", .expected = "F32, BF16 or F8_E4M3", .got = std::string(to_string(config.dtype))});
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
  const auto sides = 2 * static_cast<size_t>(config.num_layers);
  return config.dtype == DType::kE4M3 ? scales_offset(config) + sides * sizeof(float) : sides * side_bytes(config);
}

PagedKvView PagedKvCache::layer(int64_t layer_idx) const {
  const Shape shape{config_.num_blocks, config_.block_size, config_.num_key_value_heads, config_.head_dim};
  const size_t side = side_bytes(config_);
  const size_t begin = 2 * static_cast<size_t>(layer_idx) * side;
  PagedKvView view{.k_cache = memory_.tensor(config_.dtype, shape, begin),
                   .v_cache = memory_.tensor(config_.dtype, shape, begin + side)};
  if (config_.dtype == DType::kE4M3) {
    const size_t scales = scales_offset(config_) + static_cast<size_t>(layer_idx) * sizeof(KvScales);
    view.k_scale = memory_.tensor(DType::kF32, {1}, scales);
    view.v_scale = memory_.tensor(DType::kF32, {1}, scales + sizeof(float));
  }
  return view;
}

void PagedKvCache::set_scales(Stream& stream, std::span<const KvScales> scales) const {
  static_assert(sizeof(KvScales) == 2 * sizeof(float));
  if (config_.dtype != DType::kE4M3) throw Error(ErrorCode::kInvalidState, "only a KV cache of F8_E4M3 has scales");
  if (static_cast<int64_t>(scales.size()) != config_.num_layers) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "scales of a KV cache",
                                              .expected = std::to_string(config_.num_layers) + " layers",
                                              .got = std::to_string(scales.size())});
  }
  for (size_t layer = 0; layer < scales.size(); ++layer) {
    for (const float scale : {scales[layer].k, scales[layer].v}) {
      if (scale > 0.0F && std::isfinite(scale)) continue;
      throw Error(ErrorCode::kInvalidArgument, {.what = "scale of a KV cache",
                                                .where = "layer " + std::to_string(layer),
                                                .expected = "positive and finite",
                                                .got = std::to_string(scale)});
    }
  }
  const BufferView memory = memory_.view();
  stream.upload(std::as_bytes(scales), memory.slice(scales_offset(config_), scales.size_bytes()));
}

void PagedKvCache::check_block(int32_t block) const {
  if (block >= 0 && block < config_.num_blocks) return;
  throw Error(ErrorCode::kInvalidArgument, {.what = "block of a KV cache",
                                            .expected = "0 .. " + std::to_string(config_.num_blocks - 1),
                                            .got = std::to_string(block)});
}

void PagedKvCache::copy_block(Stream& stream, int32_t source, int32_t destination) const {
  check_block(source);
  check_block(destination);
  if (source == destination) {
    throw Error(ErrorCode::kInvalidArgument, "block " + std::to_string(source) + " of a KV cache cannot be copied to itself");
  }
  stream.run([&](CommandList& cmd) {
    for (int64_t layer_idx = 0; layer_idx < config_.num_layers; ++layer_idx) {
      const PagedKvView view = layer(layer_idx);
      for (const Tensor& side : {view.k_cache, view.v_cache}) {
        cmd.copy(side.rows(source, 1).view(), side.rows(destination, 1).view());
      }
    }
  });
}

void PagedKvCache::append_views(std::span<const int32_t> blocks, std::vector<BufferView>& views) const {
  for (const int32_t block : blocks) check_block(block);
  for (int64_t layer_idx = 0; layer_idx < config_.num_layers; ++layer_idx) {
    const PagedKvView view = layer(layer_idx);
    for (const Tensor& side : {view.k_cache, view.v_cache}) {
      for (size_t begin = 0, end = 0; begin < blocks.size(); begin = end) {
        end = begin + 1;
        while (end < blocks.size() && blocks[end] == blocks[end - 1] + 1) ++end;
        views.push_back(side.rows(blocks[begin], static_cast<int64_t>(end - begin)).view());
      }
    }
  }
}

BlockTable PagedKvCache::create_table() { return BlockTable(pool_, config_.block_size, config_.max_blocks_per_seq); }

}  // namespace foretoken
