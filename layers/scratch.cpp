#include "layers/scratch.h"

#include "backends/ops.h"

namespace foretoken {
namespace {

constexpr size_t kTensorAlignment = 256;  // bytes

/// Lays tensors out one after another in one allocation.
class Plan {
 public:
  void add(Tensor& tensor, DType dtype, const Shape& shape) {
    if (shape.num_elements() == 0) return;
    items_.push_back({.tensor = &tensor, .dtype = dtype, .shape = shape, .offset = bytes_});
    const size_t bytes = dtype_bytes(dtype, static_cast<size_t>(shape.num_elements()));
    bytes_ += (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
  }
  void add_f32(Tensor& tensor, const Shape& shape) { add(tensor, DType::kF32, shape); }

  [[nodiscard]] Buffer allocate(GpuBackend& backend) const {
    Buffer buffer = backend.allocate(bytes_);
    for (const Item& item : items_) *item.tensor = buffer.tensor(item.dtype, item.shape, item.offset);
    return buffer;
  }
  [[nodiscard]] bool empty() const { return items_.empty(); }

 private:
  struct Item {
    Tensor* tensor;
    DType dtype;
    Shape shape;
    size_t offset;
  };
  std::vector<Item> items_;
  size_t bytes_ = 0;
};

/// Scratch of attention over `rows` rows and a context of `max_seq_len`.
size_t attention_workspace_bytes(const OpTable& table, const LayerDims& dims, int64_t rows, int64_t max_seq_len,
                                 DType cache_dtype) {
  const Shape cache{1, max_seq_len, dims.num_key_value_heads, dims.head_dim};
  const Shape heads{rows, dims.num_attention_heads, dims.head_dim};
  return ops::workspace_bytes(
      table, GatedAttention{.q = Tensor::shape_only(dims.activation_dtype, heads),
                            .q_gate = Tensor::shape_only(DType::kF32, {rows, dims.num_attention_heads, 2 * dims.head_dim}),
                            .k_cache = Tensor::shape_only(cache_dtype, cache),
                            .v_cache = Tensor::shape_only(cache_dtype, cache),
                            .block_table = Tensor::shape_only(DType::kI32, {1, 1}),
                            .seq_lens = Tensor::shape_only(DType::kI32, {1}),
                            .query_start_loc = Tensor::shape_only(DType::kI32, {2}),
                            .out = Tensor::shape_only(dims.activation_dtype, heads),
                            .workspace = {},
                            .max_seq_len = max_seq_len});
}

size_t experts_workspace_bytes(const OpTable& table, const LayerDims& dims, int64_t rows) {
  const int64_t slots = dims.num_experts_per_tok;
  MoeExpertsDown op;
  op.act = Tensor::shape_only(dims.activation_dtype, {rows, slots, dims.moe_intermediate_size});
  op.down.weight = Tensor::shape_only(DType::kBF16, {dims.num_experts, dims.hidden_size, dims.moe_intermediate_size});
  op.topk_ids = Tensor::shape_only(DType::kI32, {rows, slots});
  op.topk_weights = Tensor::shape_only(DType::kF32, {rows, slots});
  op.expert_offsets = Tensor::shape_only(DType::kI32, {dims.num_experts + 1});
  op.expert_pairs = Tensor::shape_only(DType::kI32, {rows * slots});
  op.out = Tensor::shape_only(DType::kF32, {rows, dims.hidden_size});
  return ops::workspace_bytes(table, op);
}

}  // namespace

LayerScratch::LayerScratch(GpuBackend& backend, const LayerDims& dims, int64_t max_rows, int64_t max_seq_len, DType cache_dtype)
    : max_rows_(max_rows) {
  allocate_workspaces(backend, dims, max_seq_len, cache_dtype);  // first: it asks for operators that the device may lack
  allocate(backend, dims);
}

void LayerScratch::allocate(GpuBackend& backend, const LayerDims& dims) {
  const int64_t rows = max_rows_;
  const int64_t attention_size = dims.num_attention_heads * dims.head_dim;
  const int64_t key_value_size = dims.num_key_value_heads * dims.head_dim;
  const int64_t delta_size = dims.linear_num_value_heads * dims.linear_value_head_dim;
  Plan plan;
  const auto add_input = [&](Tensor& tensor, const Shape& shape) { plan.add(tensor, dims.activation_dtype, shape); };
  for (Tensor* tensor : {&input_norm, &post_norm}) add_input(*tensor, {rows, dims.hidden_size});
  for (Tensor* tensor : {&mixed, &ffn}) plan.add_f32(*tensor, {rows, dims.hidden_size});
  plan.add_f32(q_gate, {rows, 2 * attention_size});
  for (Tensor* tensor : {&q, &attention}) add_input(*tensor, {rows, attention_size});
  for (Tensor* tensor : {&k, &v}) plan.add_f32(*tensor, {rows, key_value_size});
  for (Tensor* tensor : {&qkv, &conv}) plan.add_f32(*tensor, {rows, dims.conv_channels});
  plan.add_f32(z, {rows, delta_size});
  add_input(delta, {rows, delta_size});
  for (Tensor* tensor : {&b, &a}) plan.add_f32(*tensor, {rows, dims.linear_num_value_heads});
  add_input(act, {rows, dims.intermediate_size});
  if (dims.num_experts > 0) {
    const int64_t slots = dims.num_experts_per_tok;
    plan.add_f32(router_logits, {rows, dims.num_experts});
    plan.add(topk_ids, DType::kI32, {rows, slots});
    plan.add_f32(topk_weights, {rows, slots});
    plan.add(expert_offsets, DType::kI32, {dims.num_experts + 1});
    plan.add(expert_pairs, DType::kI32, {rows * slots});
    add_input(expert_act, {rows, slots, dims.moe_intermediate_size});
    add_input(shared_act, {rows, dims.shared_expert_intermediate_size});
    plan.add_f32(shared, {rows, dims.hidden_size});
    plan.add_f32(shared_gate, {rows, 1});
  }
  buffers_.push_back(plan.allocate(backend));
}

void LayerScratch::allocate_workspaces(GpuBackend& backend, const LayerDims& dims, int64_t max_seq_len, DType cache_dtype) {
  const OpTable& table = backend.ops();
  const auto byte_shape = [](size_t bytes) { return Shape{static_cast<int64_t>(bytes)}; };
  Plan plan;
  plan.add(attention_work, DType::kU8, byte_shape(attention_workspace_bytes(table, dims, max_rows_, max_seq_len, cache_dtype)));
  if (dims.num_experts > 0) plan.add(expert_work, DType::kU8, byte_shape(experts_workspace_bytes(table, dims, max_rows_)));
  if (!plan.empty()) buffers_.push_back(plan.allocate(backend));
}

}  // namespace foretoken
