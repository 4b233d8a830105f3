#include "core/ops/gated_attention.h"

#include <string>

#include "core/error.h"
#include "core/kv_view.h"
#include "core/ops/activations.h"

namespace foretoken {
void GatedAttention::validate() const {
  check_kv_scales("gated_attention", {.k_cache = k_cache, .v_cache = v_cache, .k_scale = k_scale, .v_scale = v_scale});
  if (q.dim(1) % k_cache.dim(2) != 0) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "gated_attention: query heads",
                                              .expected = "a multiple of the " + std::to_string(k_cache.dim(2)) + " key heads",
                                              .got = std::to_string(q.dim(1))});
  }
  if (max_seq_len <= 0 || max_seq_len > block_table.dim(1) * k_cache.dim(1)) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "gated_attention: max_seq_len",
                                              .expected = "1 .. " + std::to_string(block_table.dim(1) * k_cache.dim(1)) +
                                                          " (what a row of the block table reaches)",
                                              .got = std::to_string(max_seq_len)});
  }
}

const OpSchema& GatedAttention::schema() {
  static const OpSchema schema = OpSchema("gated_attention")
                                     .in("q", {"T", "Hq", "D"}, kActivationDtypes)
                                     .strided()
                                     .in("q_gate", {"T", "Hq", "2*D"}, kActivationDtypes)
                                     .strided()
                                     .in("k_cache", {"num_blocks", "block_size", "Hkv", "D"}, kCacheDtypes)
                                     .in("v_cache", {"num_blocks", "block_size", "Hkv", "D"}, kCacheDtypes)
                                     .in("k_scale", {"1"}, kF32Only)
                                     .optional()
                                     .in("v_scale", {"1"}, kF32Only)
                                     .optional()
                                     .in("block_table", {"B", "max_blocks"}, kI32Only)
                                     .strided()
                                     .in("seq_lens", {"B"}, kI32Only)
                                     .in("query_start_loc", {"B+1"}, kI32Only)
                                     .out("out", {"T", "Hq", "D"}, kActivationDtypes)
                                     .strided()
                                     .workspace("workspace")
                                     .tolerance(DType::kF32, 1e-5)
                                     .tolerance(DType::kBF16, 1e-2);
  return schema;
}

}  // namespace foretoken
