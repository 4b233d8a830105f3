#include "speculative/target_caches.h"

#include <algorithm>

namespace foretoken {
namespace {

int64_t count_layers(const ModelConfig& config, LayerType type) { return std::ranges::count(config.layer_types, type); }

}  // namespace

PagedKvCacheConfig target_kv_config(const ModelConfig& config, const TargetRunnerOptions& options) {
  const auto blocks_per_seq = static_cast<int32_t>((options.max_seq_len + options.block_size - 1) / options.block_size);
  return {.num_layers = count_layers(config, LayerType::kFullAttention),
          .num_key_value_heads = config.num_key_value_heads,
          .head_dim = config.head_dim,
          .dtype = options.cache_dtype,
          .block_size = options.block_size,
          .num_blocks =
              options.num_kv_blocks > 0 ? static_cast<int32_t>(options.num_kv_blocks) : blocks_per_seq * options.max_sequences,
          .max_blocks_per_seq = blocks_per_seq};
}

RecurrentStateConfig target_state_config(const ModelConfig& config, const TargetRunnerOptions& options) {
  return {.num_layers = count_layers(config, LayerType::kLinearAttention),
          .num_slots = options.max_sequences,
          .max_record_rows = options.max_verify_rows,
          .conv_channels = config.conv_channels(),
          .num_value_heads = config.linear_num_value_heads,
          .key_head_dim = config.linear_key_head_dim,
          .value_head_dim = config.linear_value_head_dim};
}

TargetCaches target_cache_views(const ModelConfig& config, const PagedKvCache& kv, const RecurrentStateStore& states) {
  TargetCaches views;
  int64_t attention_idx = 0;
  int64_t linear_idx = 0;
  for (LayerType type : config.layer_types) {
    const bool full = type == LayerType::kFullAttention;
    views.kv.push_back(full ? kv.layer(attention_idx++) : PagedKvView{});
    views.recurrent.push_back(full ? RecurrentStateView{} : states.layer(linear_idx++));
  }
  return views;
}

}  // namespace foretoken
