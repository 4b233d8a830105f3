#include "core/ops/rope.h"

#include <string>

#include "core/error.h"
#include "core/kv_view.h"
#include "core/ops/activations.h"

namespace foretoken {
namespace {

void check_rotary(const char* op, int64_t rotary_dim, int64_t head_dim) {
  if (rotary_dim % 2 != 0 || rotary_dim > head_dim) {
    throw Error(ErrorCode::kInvalidArgument, {.what = std::string(op) + ": rotary dimension",
                                              .expected = "even and at most the head dimension " + std::to_string(head_dim),
                                              .got = std::to_string(rotary_dim)});
  }
}

}  // namespace

void Rope::validate() const { check_rotary("rope", cos_sin.dim(1), x.dim(2)); }

void QkNormRopeCache::validate() const {
  check_rotary("qk_norm_rope_cache", cos_sin.dim(1), k.dim(2));
  check_kv_scales("qk_norm_rope_cache", {.k_cache = k_cache, .v_cache = v_cache, .k_scale = k_scale, .v_scale = v_scale});
  if (q_gate.is_absent() != q.is_absent() || (q && q_norm.is_absent())) {
    throw Error(ErrorCode::kInvalidArgument, "qk_norm_rope_cache: q_gate, q_norm and q go together");
  }
}

const OpSchema& RopeTable::schema() {
  static const OpSchema schema = OpSchema("rope_table")
                                     .in("positions", {"T"}, kI32Only)
                                     .out("cos_sin", {"T", "R"}, kF32Only)
                                     .tolerance(DType::kF32, 1e-5)
                                     .tolerance(DType::kBF16, 1e-2);
  return schema;
}

const OpSchema& Rope::schema() {
  static const OpSchema schema = OpSchema("rope")
                                     .in_out("x", {"T", "Hn", "D"}, kActivationDtypes)
                                     .strided()
                                     .in("cos_sin", {"T", "R"}, kF32Only)
                                     .tolerance(DType::kF32, 1e-5)
                                     .tolerance(DType::kBF16, 1e-2);
  return schema;
}

const OpSchema& QkNormRopeCache::schema() {
  static const OpSchema schema = OpSchema("qk_norm_rope_cache")
                                     .in("q_gate", {"T", "Hq", "2*D"}, kActivationDtypes)
                                     .strided()
                                     .optional()
                                     .in("k", {"T", "Hkv", "D"}, kActivationDtypes)
                                     .strided()
                                     .in("v", {"T", "Hkv", "D"}, kActivationDtypes)
                                     .strided()
                                     .in("q_norm", {"D"}, kF32Only)
                                     .optional()
                                     .in("k_norm", {"D"}, kF32Only)
                                     .in("cos_sin", {"T", "R"}, kF32Only)
                                     .in("slot_mapping", {"T"}, kI64Only)
                                     .out("q", {"T", "Hq", "D"}, kActivationDtypes)
                                     .optional()
                                     .in_out("k_cache", {"num_blocks", "block_size", "Hkv", "D"}, kCacheDtypes)
                                     .in_out("v_cache", {"num_blocks", "block_size", "Hkv", "D"}, kCacheDtypes)
                                     .in("k_scale", {"1"}, kF32Only)
                                     .optional()
                                     .in("v_scale", {"1"}, kF32Only)
                                     .optional()
                                     .tolerance(DType::kF32, 1e-5)
                                     .tolerance(DType::kBF16, 1e-2)
                                     .tolerance(DType::kE4M3, 0.125, 2e-4);  // a few keys on the other side of a tie
  return schema;
}

}  // namespace foretoken
