// What the caches of a target model are made of.
#pragma once

#include "cache/paged_kv_cache.h"
#include "cache/recurrent_state_store.h"
#include "models/model_config.h"
#include "models/target_model.h"
#include "speculative/target_runner.h"

namespace foretoken {

/// KV of the full-attention layers: `num_kv_blocks`, or enough for max_sequences of max_seq_len.
[[nodiscard]] PagedKvCacheConfig target_kv_config(const ModelConfig& config, const TargetRunnerOptions& options);

/// States of the linear-attention layers: a slot for each sequence, with records of as many rows as a verify step has.
[[nodiscard]] RecurrentStateConfig target_state_config(const ModelConfig& config, const TargetRunnerOptions& options);

/// Views of both in the order of the model's layers; `kv` and `states` must outlive them.
[[nodiscard]] TargetCaches target_cache_views(const ModelConfig& config, const PagedKvCache& kv,
                                              const RecurrentStateStore& states);

}  // namespace foretoken
