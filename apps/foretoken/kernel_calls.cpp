#include "apps/foretoken/kernel_calls.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "backends/ops.h"
#include "core/error.h"

namespace foretoken::cli {
namespace {

constexpr uint64_t kSeed = 20260301;
constexpr int kInputExponent = -7;  // |x| < 1

}  // namespace

std::string KernelShape::to_string() const {
  const std::string matrix = std::to_string(rows_out) + "x" + std::to_string(columns);
  return op != KernelOp::kMoe ? matrix
                              : std::to_string(num_experts) + "x" + matrix + ", top " + std::to_string(num_experts_per_tok);
}

/// Which experts the rows of one call pick.
struct KernelCalls::Routing {
  Tensor topk_ids;
  Tensor offsets;
  Tensor pairs;
};

/// An implementation, and the operands as it takes them.
template <class Op>
struct KernelCalls::Candidate {
  const OpImplementation* implementation;
  Op op;
  bool rounds_activations = false;

  void launch(CommandList& cmd) const { implementation->launch(cmd, &op); }
};

KernelCalls::KernelCalls(GpuBackend& backend, Stream& stream, const KernelShape& shape, const std::vector<KernelWeights>& weights,
                         int64_t rows, DType activations, std::string_view implementation)
    : backend_(backend),
      stream_(stream),
      weights_(weights),
      rows_(rows),
      activations_(activations),
      implementation_(implementation) {
  switch (shape.op) {
    case KernelOp::kLinear: add_linear(); break;
    case KernelOp::kLinearArgmax: add_linear_argmax(); break;
    case KernelOp::kLinearSiluMul: add_linear_silu_mul(); break;
    case KernelOp::kMoe: add_moe(shape); break;
  }
}

Tensor KernelCalls::allocate(DType dtype, const Shape& shape) {
  memory_.push_back(backend_.allocate(dtype_bytes(dtype, static_cast<size_t>(shape.num_elements()))));
  return memory_.back().tensor(dtype, shape);
}

Tensor KernelCalls::input(const Shape& shape) {
  const Tensor x = allocate(activations_, shape);
  stream_.run([&](CommandList& cmd) {
    ops::dispatch(cmd, RandomFill{.out = x.reshape({shape.num_elements()}), .seed = kSeed, .exponent = kInputExponent});
  });
  return x;
}

template <class T>
Tensor KernelCalls::upload(DType dtype, const Shape& shape, const std::vector<T>& values) {
  const Tensor tensor = allocate(dtype, shape);
  stream_.upload(std::as_bytes(std::span(values)), tensor.view());
  return tensor;
}

/// The implementations that take `op`, each with scratch memory of its own; the reasons of the others are kept.
template <class Op>
std::vector<KernelCalls::Candidate<Op>> KernelCalls::candidates(const Op& op) {
  const auto availability = [](const OpImplementation& implementation, const Op& operands) {
    return implementation.accepts ? implementation.accepts(&operands) : Availability::yes();
  };
  ops::check(op);
  std::vector<Candidate<Op>> found;
  for (const OpImplementation& implementation : backend_.ops().find(Op::schema().name())) {
    if (!implementation_.empty() && implementation.name != implementation_) continue;
    Candidate<Op> candidate{.implementation = &implementation, .op = op};
    Availability available = availability(implementation, candidate.op);
    if constexpr (requires { op.precision; }) {
      if (!available) {
        candidate.op.precision = LinearPrecision::kBF16;
        candidate.rounds_activations = true;
        available = availability(implementation, candidate.op);
      }
    }
    if (!available) {
      reasons_ += (reasons_.empty() ? "" : "; ") + implementation.name + ": " + available.reason();
      continue;
    }
    if constexpr (requires { op.workspace; }) {
      const size_t scratch = implementation.workspace_bytes ? implementation.workspace_bytes(&candidate.op) : 0;
      if (scratch > 0) candidate.op.workspace = allocate(DType::kU8, {static_cast<int64_t>(scratch)});
    }
    found.push_back(candidate);
  }
  if (found.empty() && reasons_.empty()) {
    reasons_ = implementation_.empty() ? "no implementation" : "no implementation called " + implementation_;
  }
  std::ranges::stable_partition(found, [](const auto& candidate) { return !candidate.rounds_activations; });
  return found;
}

/// Adds every implementation of one operator; `set_weights(op, weights)` puts a copy of the weights in.
template <class Op, class SetWeights>
void KernelCalls::add_variants(const Op& op, const SetWeights& set_weights) {
  for (Candidate<Op>& candidate : candidates(op)) {
    KernelVariant variant{.name = candidate.implementation->name, .rounds_activations = candidate.rounds_activations};
    for (const KernelWeights& weights : weights_) {
      set_weights(candidate.op, weights);
      variant.calls.emplace_back([candidate](CommandList& cmd) { candidate.launch(cmd); });
    }
    variants_.push_back(std::move(variant));
  }
}

void KernelCalls::add_linear() {
  const LinearWeight& w = weights_.front().first;
  bytes_ = w.bytes();
  const Linear op{
      .x = input({rows_, w.in_features()}), .w = w, .out = allocate(DType::kF32, {rows_, w.out_features()}), .workspace = {}};
  add_variants(op, [](Linear& call, const KernelWeights& weights) { call.w = weights.first; });
}

void KernelCalls::add_linear_argmax() {
  const LinearWeight& w = weights_.front().first;
  bytes_ = w.bytes();
  const LinearArgmax op{
      .x = input({rows_, w.in_features()}), .w = w, .token_ids = allocate(DType::kI32, {rows_}), .logprobs = {}, .workspace = {}};
  add_variants(op, [](LinearArgmax& call, const KernelWeights& weights) { call.w = weights.first; });
}

void KernelCalls::add_linear_silu_mul() {
  const KernelWeights& w = weights_.front();
  bytes_ = w.first.bytes() + w.second.bytes();
  const LinearSiluMul op{.x = input({rows_, w.first.in_features()}),
                         .gate = w.first,
                         .up = w.second,
                         .out = allocate(activations_, {rows_, w.first.out_features()}),
                         .workspace = {}};
  add_variants(op, [](LinearSiluMul& call, const KernelWeights& weights) {
    call.gate = weights.first;
    call.up = weights.second;
  });
}

/// The rows pick the experts from `first` on, in turn, so that those of one call are distinct as far as there are enough.
KernelCalls::Routing KernelCalls::make_routing(const KernelShape& shape, int64_t first) {
  const int64_t slots = shape.num_experts_per_tok;
  std::vector<int32_t> ids(static_cast<size_t>(rows_ * slots));
  for (size_t pair = 0; pair < ids.size(); ++pair) {
    ids[pair] = static_cast<int32_t>((first + static_cast<int64_t>(pair)) % shape.num_experts);
  }
  std::vector<int32_t> order(ids.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&ids](int32_t pair) { return ids[static_cast<size_t>(pair)]; });
  std::vector<int32_t> offsets(static_cast<size_t>(shape.num_experts) + 1);
  for (const int32_t id : ids) ++offsets[static_cast<size_t>(id) + 1];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  return {.topk_ids = upload(DType::kI32, {rows_, slots}, ids),
          .offsets = upload(DType::kI32, {shape.num_experts + 1}, offsets),
          .pairs = upload(DType::kI32, {rows_ * slots}, order)};
}

/// An implementation that only one projection has is joined with the best of the other.
void KernelCalls::add_moe(const KernelShape& shape) {
  const int64_t slots = shape.num_experts_per_tok;
  const int64_t active = std::min(rows_ * slots, shape.num_experts);
  const KernelWeights& w = weights_.front();
  bytes_ = (w.first.bytes() + w.second.bytes()) / static_cast<uint64_t>(shape.num_experts) * static_cast<uint64_t>(active);
  std::vector<Routing> routings;
  for (int64_t first = 0; first < shape.num_experts; first += active) routings.push_back(make_routing(shape, first));

  const Routing& routing = routings.front();
  const MoeExpertsUp up{.x = input({rows_, shape.columns}),
                        .gate_up = w.first,
                        .expert_offsets = routing.offsets,
                        .expert_pairs = routing.pairs,
                        .out = allocate(activations_, {rows_, slots, shape.rows_out})};
  const std::vector<float> topk_weights(static_cast<size_t>(rows_ * slots), 1.0F / static_cast<float>(slots));
  const MoeExpertsDown down{.act = up.out,
                            .down = w.second,
                            .topk_ids = routing.topk_ids,
                            .topk_weights = upload(DType::kF32, {rows_, slots}, topk_weights),
                            .expert_offsets = routing.offsets,
                            .expert_pairs = routing.pairs,
                            .shared = {},
                            .shared_gate = {},
                            .out = allocate(DType::kF32, {rows_, shape.columns}),
                            .workspace = {}};
  const auto ups = candidates(up);
  const auto downs = candidates(down);
  if (ups.empty() || downs.empty()) return;
  const auto named = [](const auto& list, const std::string& name) {
    return std::ranges::find(list, name, [](const auto& candidate) { return candidate.implementation->name; });
  };
  for (const auto& first : ups) {
    const auto second = named(downs, first.implementation->name);
    add_moe_variant(first, second != downs.end() ? *second : downs.front(), routings);
  }
  for (const auto& second : downs) {
    if (named(ups, second.implementation->name) == ups.end()) add_moe_variant(ups.front(), second, routings);
  }
}

void KernelCalls::add_moe_variant(Candidate<MoeExpertsUp> up, Candidate<MoeExpertsDown> down,
                                  const std::vector<Routing>& routings) {
  const std::string& name = up.implementation->name;
  KernelVariant variant{.name = name == down.implementation->name ? name : name + "+" + down.implementation->name};
  for (const Routing& routing : routings) {
    up.op.expert_offsets = down.op.expert_offsets = routing.offsets;
    up.op.expert_pairs = down.op.expert_pairs = routing.pairs;
    down.op.topk_ids = routing.topk_ids;
    for (const KernelWeights& weights : weights_) {
      up.op.gate_up = weights.first;
      down.op.down = weights.second;
      variant.calls.emplace_back([up, down](CommandList& cmd) {
        up.launch(cmd);
        down.launch(cmd);
      });
    }
  }
  variants_.push_back(std::move(variant));
}

}  // namespace foretoken::cli
