#include <string>

#include "core/op_case.h"
#include "core/ops/case_parts.h"
#include "core/ops/rope.h"

namespace foretoken {
namespace {

constexpr int64_t kMaxPosition = 262143;

struct HeadShape {
  int64_t num_tokens, num_heads, num_kv_heads, head_dim, rotary_dim;
  DType cache_dtype = DType::kBF16;
  bool with_query = true;
  bool strided = false;
  DType dtype = DType::kF32;
  int64_t block_size = 16;
  double v_scale = 0.021;     // of an E4M3 cache
  bool rounds_query = false;  // q in BF16 where q_gate is F32
};

Tensor heads(OperandMaker& maker, const HeadShape& shape, int64_t num_heads, int64_t width, const Fill& fill,
             bool updated = false) {
  const Shape extents{shape.num_tokens, num_heads, width};
  if (shape.strided) {
    return maker.strided(shape.dtype, {shape.num_tokens, num_heads * width}, num_heads * width + 37, fill).reshape(extents);
  }
  return updated ? maker.in_out(shape.dtype, extents, fill) : maker.input(shape.dtype, extents, fill);
}

std::string name_of(const HeadShape& shape) {
  using namespace case_parts;
  return sized("T", shape.num_tokens) + sized("_Hq", shape.num_heads) + sized("_Hkv", shape.num_kv_heads) +
         sized("_D", shape.head_dim) + sized("_R", shape.rotary_dim) + (shape.strided ? "_strided" : "");
}

/// A slot for each row: different ones in random order, every third row without one.
std::vector<int64_t> slots_of(OperandMaker& maker, const HeadShape& shape, int64_t num_blocks) {
  std::mt19937_64 generator(maker.seed());
  std::vector<int64_t> slots;
  for (const int32_t slot : case_parts::sample_distinct(generator, num_blocks * shape.block_size, shape.num_tokens)) {
    slots.push_back(slots.size() % 3 == 2 ? -1 : slot);
  }
  return slots;
}

QkNormRopeCache make_cache_write(OperandMaker& maker, const HeadShape& shape) {
  const int64_t num_blocks = shape.num_tokens / shape.block_size + 3;
  const Shape cache{num_blocks, shape.block_size, shape.num_kv_heads, shape.head_dim};
  QkNormRopeCache op;
  if (shape.with_query) {
    op.q_gate = heads(maker, shape, shape.num_heads, 2 * shape.head_dim, fill::normal(1.0));
    op.q_norm = maker.input(DType::kF32, {shape.head_dim}, fill::normal(0.3));
    op.q = maker.output(shape.rounds_query ? DType::kBF16 : shape.dtype, {shape.num_tokens, shape.num_heads, shape.head_dim});
  }
  op.k = heads(maker, shape, shape.num_kv_heads, shape.head_dim, fill::normal(2.0));
  op.v = heads(maker, shape, shape.num_kv_heads, shape.head_dim, fill::normal(1.0));
  op.k_norm = maker.input(DType::kF32, {shape.head_dim}, fill::normal(0.3));
  op.cos_sin = maker.input(DType::kF32, {shape.num_tokens, shape.rotary_dim}, fill::uniform(-1.0, 1.0));
  op.slot_mapping = maker.input(DType::kI64, {shape.num_tokens}, case_parts::listed(slots_of(maker, shape, num_blocks)));
  op.k_cache = maker.in_out(shape.cache_dtype, cache, fill::normal(1.0));
  op.v_cache = maker.in_out(shape.cache_dtype, cache, fill::normal(1.0));
  if (shape.cache_dtype == DType::kE4M3) {
    op.k_scale = maker.input(DType::kF32, {1}, fill::constant(0.37));
    op.v_scale = maker.input(DType::kF32, {1}, fill::constant(shape.v_scale));
  }
  return op;
}

}  // namespace

std::vector<OpCase<RopeTable>> RopeTable::cases() {
  std::vector<OpCase<RopeTable>> list;
  const auto add = [&list](int64_t num_tokens, int64_t rotary_dim, double theta, int64_t max_position) {
    using case_parts::sized;
    list.push_back({.name = sized("T", num_tokens) + sized("_R", rotary_dim) + sized("_theta", static_cast<int64_t>(theta)),
                    .make = [=](OperandMaker& maker) {
                      RopeTable op;
                      op.positions = maker.input(DType::kI32, {num_tokens}, fill::integers(0, max_position));
                      op.cos_sin = maker.output(DType::kF32, {num_tokens, rotary_dim});
                      op.theta = theta;
                      return op;
                    }});
  };
  add(1, 64, 1e7, kMaxPosition);
  add(16, 64, 1e7, kMaxPosition);
  add(5, 64, 5e6, kMaxPosition);
  add(33, 16, 1e4, 4096);
  add(3, 2, 1e4, 100);
  add(4, 10, 1e7, kMaxPosition);
  return list;
}

std::vector<OpCase<Rope>> Rope::cases() {
  static constexpr HeadShape kShapes[] = {
      {.num_tokens = 5, .num_heads = 8, .num_kv_heads = 2, .head_dim = 256, .rotary_dim = 64},
      {.num_tokens = 1, .num_heads = 24, .num_kv_heads = 4, .head_dim = 256, .rotary_dim = 64},
      {.num_tokens = 70, .num_heads = 3, .num_kv_heads = 1, .head_dim = 64, .rotary_dim = 16},
      {.num_tokens = 3, .num_heads = 2, .num_kv_heads = 1, .head_dim = 16, .rotary_dim = 16},
      {.num_tokens = 2, .num_heads = 1, .num_kv_heads = 1, .head_dim = 13, .rotary_dim = 6},
      {.num_tokens = 4, .num_heads = 3, .num_kv_heads = 1, .head_dim = 64, .rotary_dim = 16, .strided = true},
      {.num_tokens = 5, .num_heads = 8, .num_kv_heads = 2, .head_dim = 256, .rotary_dim = 64, .dtype = DType::kBF16},
  };
  std::vector<OpCase<Rope>> list;
  for (const HeadShape& shape : kShapes) {
    list.push_back({.name = name_of(shape) + case_parts::activation_suffix(shape.dtype), .make = [shape](OperandMaker& maker) {
                      Rope op;
                      op.x = heads(maker, shape, shape.num_heads, shape.head_dim, fill::normal(1.0), true);
                      op.cos_sin = maker.input(DType::kF32, {shape.num_tokens, shape.rotary_dim}, fill::uniform(-1.0, 1.0));
                      return op;
                    }});
  }
  return list;
}

std::vector<OpCase<QkNormRopeCache>> QkNormRopeCache::cases() {
  static constexpr HeadShape kShapes[] = {
      {.num_tokens = 1, .num_heads = 8, .num_kv_heads = 2, .head_dim = 256, .rotary_dim = 64},
      {.num_tokens = 5, .num_heads = 24, .num_kv_heads = 4, .head_dim = 256, .rotary_dim = 64},
      {.num_tokens = 40, .num_heads = 3, .num_kv_heads = 1, .head_dim = 64, .rotary_dim = 16},
      {.num_tokens = 7, .num_heads = 2, .num_kv_heads = 2, .head_dim = 18, .rotary_dim = 6, .block_size = 1},
      {.num_tokens = 4, .num_heads = 3, .num_kv_heads = 1, .head_dim = 64, .rotary_dim = 16, .strided = true, .block_size = 5},
      {.num_tokens = 6, .num_heads = 8, .num_kv_heads = 2, .head_dim = 256, .rotary_dim = 64, .with_query = false},
      {.num_tokens = 5, .num_heads = 8, .num_kv_heads = 2, .head_dim = 256, .rotary_dim = 64, .dtype = DType::kBF16},
      {.num_tokens = 5, .num_heads = 8, .num_kv_heads = 2, .head_dim = 256, .rotary_dim = 64, .rounds_query = true},
  };
  std::vector<OpCase<QkNormRopeCache>> list;
  const auto add = [&list](HeadShape shape, DType cache_dtype, const std::string& suffix) {
    shape.cache_dtype = cache_dtype;
    list.push_back({.name = name_of(shape) + "_cache-" + std::string(to_string(cache_dtype)) +
                            (shape.with_query ? "" : "_cache-only") + suffix + (shape.rounds_query ? "_rounded" : "") +
                            case_parts::activation_suffix(shape.rounds_query ? DType::kBF16 : shape.dtype),
                    .make = [shape](OperandMaker& maker) { return make_cache_write(maker, shape); }});
  };
  for (const HeadShape& shape : kShapes) {
    for (const DType cache_dtype : {DType::kBF16, DType::kF32, DType::kE4M3}) add(shape, cache_dtype, "");
  }
  HeadShape extreme = kShapes[2];
  extreme.v_scale = 0.002;
  add(extreme, DType::kE4M3, "_saturating");
  extreme.v_scale = 100.0;
  add(extreme, DType::kE4M3, "_subnormal");
  return list;
}

}  // namespace foretoken
