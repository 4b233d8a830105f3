#include "cache/recurrent_state_store.h"

#include <algorithm>
#include <array>
#include <string>

#include "backends/ops.h"
#include "core/error.h"

namespace foretoken {
namespace {

constexpr int64_t kConvStateRows = 3;     // raw inputs that a kernel of 4 looks back on
constexpr size_t kTensorAlignment = 256;  // bytes

/// Shapes in the order of RecurrentStateView.
std::array<Shape, 6> layer_shapes(const RecurrentStateConfig& c) {
  return {Shape{c.num_slots, c.conv_channels, kConvStateRows},
          Shape{c.num_slots, c.num_value_heads, c.key_head_dim, c.value_head_dim},
          Shape{c.num_slots, c.max_record_rows, c.conv_channels},
          Shape{c.num_slots, c.max_record_rows, c.num_value_heads, c.key_head_dim},
          Shape{c.num_slots, c.max_record_rows, c.num_value_heads, c.value_head_dim},
          Shape{c.num_slots, c.max_record_rows, c.num_value_heads}};
}

size_t padded_bytes(const Shape& shape) {
  const size_t bytes = dtype_bytes(DType::kF32, static_cast<size_t>(shape.num_elements()));
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

size_t layer_bytes(const RecurrentStateConfig& config) {
  size_t bytes = 0;
  for (const Shape& shape : layer_shapes(config)) bytes += padded_bytes(shape);
  return bytes;
}

/// What commit works with: the operands of a row that the operators of a layer record, so that they add the rows recorded before
/// it. What becomes of that row is of no use.
struct CommitScratch {
  size_t zeros;                           // elements of F32: weights and inputs
  size_t outputs;                         // elements of F32
  static constexpr size_t kIntegers = 4;  // query_start_loc [2], state_slots [1], num_commit [1]

  explicit CommitScratch(const RecurrentStateConfig& c)
      : zeros(static_cast<size_t>(std::max(4 * c.conv_channels, c.num_value_heads))),
        outputs(static_cast<size_t>(std::max(c.conv_channels, c.num_value_heads * c.value_head_dim))) {}
  [[nodiscard]] size_t bytes() const { return (zeros + outputs) * sizeof(float) + kIntegers * sizeof(int32_t); }
};

}  // namespace

RecurrentStateStore::RecurrentStateStore(GpuBackend& backend, const RecurrentStateConfig& config) : config_(config) {
  for (auto slot = static_cast<int32_t>(config.num_slots - 1); slot >= 0; --slot) free_.push_back(slot);
  memory_ = backend.allocate(bytes_for(config));
}

size_t RecurrentStateStore::bytes_for(const RecurrentStateConfig& config) {
  if (config.num_layers == 0) return 0;
  return static_cast<size_t>(config.num_layers) * layer_bytes(config) + CommitScratch(config).bytes();
}

RecurrentStateView RecurrentStateStore::layer(int64_t layer_idx) const {
  size_t offset = static_cast<size_t>(layer_idx) * layer_bytes(config_);
  std::array<Tensor, 6> tensors;
  const auto shapes = layer_shapes(config_);
  for (size_t i = 0; i < shapes.size(); ++i) {
    tensors[i] = memory_.tensor(DType::kF32, shapes[i], offset);
    offset += padded_bytes(shapes[i]);
  }
  return {.conv_state = tensors[0],
          .state = tensors[1],
          .conv_record = tensors[2],
          .key_record = tensors[3],
          .delta_record = tensors[4],
          .decay_record = tensors[5]};
}

std::optional<int32_t> RecurrentStateStore::allocate(Stream& stream) {
  if (free_.empty()) return std::nullopt;
  const int32_t slot = free_.back();
  stream.run([&](CommandList& cmd) {
    for (int64_t i = 0; i < config_.num_layers; ++i) {
      const RecurrentStateView view = layer(i);
      cmd.fill(view.conv_state.rows(slot, 1).view(), 0);
      cmd.fill(view.state.rows(slot, 1).view(), 0);
    }
  });
  free_.pop_back();
  return slot;
}

void RecurrentStateStore::check_in_use(int32_t slot) const {
  if (slot >= 0 && slot < config_.num_slots && std::ranges::find(free_, slot) == free_.end()) return;
  throw Error(ErrorCode::kInternalError, "recurrent state slot " + std::to_string(slot) + " is not in use");
}

void RecurrentStateStore::release(int32_t slot) {
  check_in_use(slot);
  free_.push_back(slot);
}

size_t RecurrentStateStore::state_bytes(const RecurrentStateConfig& config) {
  const int64_t elements =
      config.conv_channels * kConvStateRows + config.num_value_heads * config.key_head_dim * config.value_head_dim;
  return static_cast<size_t>(config.num_layers) * dtype_bytes(DType::kF32, static_cast<size_t>(elements));
}

void RecurrentStateStore::append_views(int32_t slot, std::vector<BufferView>& views) const {
  check_in_use(slot);
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    const RecurrentStateView view = layer(i);
    views.push_back(view.conv_state.rows(slot, 1).view());
    views.push_back(view.state.rows(slot, 1).view());
  }
}

void RecurrentStateStore::commit(Stream& stream, int32_t slot, int32_t num_commit) {
  check_in_use(slot);
  if (num_commit == kAcceptUnknown) {
    throw Error(ErrorCode::kInvalidState, {.what = "recurrent states cannot be kept before the accept count is known",
                                           .where = "state slot " + std::to_string(slot)});
  }
  if (num_commit < 0 || num_commit > config_.max_record_rows) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "recorded rows to commit",
                                              .expected = "0 .. " + std::to_string(config_.max_record_rows),
                                              .got = std::to_string(num_commit)});
  }
  if (num_commit == 0 || config_.num_layers == 0) return;

  const RecurrentStateConfig& c = config_;
  const CommitScratch scratch(c);
  size_t offset = static_cast<size_t>(c.num_layers) * layer_bytes(c);
  const Tensor zeros = memory_.tensor(DType::kF32, {static_cast<int64_t>(scratch.zeros)}, offset);
  const Tensor outputs = memory_.tensor(DType::kF32, {static_cast<int64_t>(scratch.outputs)}, offset += zeros.bytes());
  const Tensor integers = memory_.tensor(DType::kI32, {CommitScratch::kIntegers}, offset += outputs.bytes());
  const std::array<int32_t, CommitScratch::kIntegers> values{0, 1, slot, num_commit};
  stream.upload(std::as_bytes(std::span(values)), integers.view());

  const auto zero = [&](const Shape& shape) { return zeros.rows(0, shape.num_elements()).reshape(shape); };
  const auto output = [&](const Shape& shape) { return outputs.rows(0, shape.num_elements()).reshape(shape); };
  stream.run([&](CommandList& cmd) {
    cmd.label("commit of recurrent states");
    cmd.fill(zeros.view(), 0);
    for (int64_t i = 0; i < c.num_layers; ++i) {
      const RecurrentStateView view = layer(i);
      ops::dispatch(cmd, CausalConv1dSilu{.x = zero({1, c.conv_channels}),
                                          .weight = zero({c.conv_channels, 4}),
                                          .query_start_loc = integers.rows(0, 2),
                                          .state_slots = integers.rows(2, 1),
                                          .num_commit = integers.rows(3, 1),
                                          .conv_state = view.conv_state,
                                          .conv_record = view.conv_record,
                                          .out = output({1, c.conv_channels}),
                                          .update = StateUpdate::kRecord});
      ops::dispatch(cmd, GatedDeltaRule{.qkv = zero({1, c.conv_channels}),
                                        .b = zero({1, c.num_value_heads}),
                                        .a = zero({1, c.num_value_heads}),
                                        .A_log = zero({c.num_value_heads}),
                                        .dt_bias = zero({c.num_value_heads}),
                                        .query_start_loc = integers.rows(0, 2),
                                        .state_slots = integers.rows(2, 1),
                                        .num_commit = integers.rows(3, 1),
                                        .state = view.state,
                                        .key_record = view.key_record,
                                        .delta_record = view.delta_record,
                                        .decay_record = view.decay_record,
                                        .z = {},
                                        .norm = {},
                                        .out = output({1, c.num_value_heads, c.value_head_dim}),
                                        .update = StateUpdate::kRecord});
    }
  });
}

}  // namespace foretoken
