#include "cache/recurrent_state_store.h"

#include <algorithm>
#include <array>
#include <string>

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

}  // namespace

RecurrentStateStore::RecurrentStateStore(GpuBackend& backend, const RecurrentStateConfig& config) : config_(config) {
  for (auto slot = static_cast<int32_t>(config.num_slots - 1); slot >= 0; --slot) free_.push_back(slot);
  memory_ = backend.allocate(bytes_for(config));
}

size_t RecurrentStateStore::bytes_for(const RecurrentStateConfig& config) {
  return static_cast<size_t>(config.num_layers) * layer_bytes(config);
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

void RecurrentStateStore::release(int32_t slot) {
  if (slot < 0 || slot >= config_.num_slots || std::ranges::find(free_, slot) != free_.end()) {
    throw Error(ErrorCode::kInternalError, "recurrent state slot " + std::to_string(slot) + " is not in use");
  }
  free_.push_back(slot);
}

}  // namespace foretoken
