#include <cmath>

#include "backends/cpu/reference/activation.h"
#include "backends/cpu/reference/host_tensor.h"
#include "backends/cpu/reference/reference.h"

namespace foretoken {
namespace {

constexpr int64_t kConvTaps = 4;
constexpr double kL2Eps = 1e-6;  // under the root of the l2 norm of q and k

/// `count` elements of row `t` from column `begin`, scaled to unit length.
std::vector<double> unit_vector(const HostTensor& x, int64_t t, int64_t begin, int64_t count) {
  std::vector<double> values;
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(x(t, begin + i));
    sum += values.back() * values.back();
  }
  for (double& value : values) value /= std::sqrt(sum + kL2Eps);
  return values;
}

/// S[h] of one sequence: [dk, dv], in float64 over the whole call.
class HeadState {
 public:
  HeadState(const HostTensor& state, int64_t slot, int64_t head)
      : key_dim_(state.dim(2)), value_dim_(state.dim(3)), values_(static_cast<size_t>(key_dim_ * value_dim_)) {
    for (int64_t i = 0; i < key_dim_; ++i) {
      for (int64_t j = 0; j < value_dim_; ++j) at(i, j) = state(slot, head, i, j);
    }
  }
  void store(const HostTensor& state, int64_t slot, int64_t head) {
    for (int64_t i = 0; i < key_dim_; ++i) {
      for (int64_t j = 0; j < value_dim_; ++j) state.set(at(i, j), slot, head, i, j);
    }
  }
  void decay(double factor) {
    for (double& value : values_) value *= factor;
  }
  /// S^T x
  std::vector<double> transposed_times(const std::vector<double>& x) {
    std::vector<double> result(static_cast<size_t>(value_dim_));
    for (int64_t i = 0; i < key_dim_; ++i) {
      for (int64_t j = 0; j < value_dim_; ++j) result[static_cast<size_t>(j)] += at(i, j) * x[static_cast<size_t>(i)];
    }
    return result;
  }
  /// S += k delta^T
  void add_outer(const std::vector<double>& k, const std::vector<double>& delta) {
    for (int64_t i = 0; i < key_dim_; ++i) {
      for (int64_t j = 0; j < value_dim_; ++j) at(i, j) += k[static_cast<size_t>(i)] * delta[static_cast<size_t>(j)];
    }
  }

 private:
  double& at(int64_t i, int64_t j) { return values_[static_cast<size_t>(i * value_dim_ + j)]; }

  int64_t key_dim_;
  int64_t value_dim_;
  std::vector<double> values_;
};

/// Adds the first `count` recorded rows of a slot to its state.
void commit(const GatedDeltaRule& op, int64_t slot, int64_t count, int64_t head, HeadState& S) {
  for (int64_t row = 0; row < count; ++row) {
    std::vector<double> k;
    std::vector<double> delta;
    for (int64_t i = 0; i < op.state.dim(2); ++i) k.push_back(HostTensor(op.key_record)(slot, row, head, i));
    for (int64_t j = 0; j < op.state.dim(3); ++j) delta.push_back(HostTensor(op.delta_record)(slot, row, head, j));
    S.decay(HostTensor(op.decay_record)(slot, row, head));
    S.add_outer(k, delta);
  }
}

/// o -> weight * o / sqrt(mean(o^2) + eps) * silu(z), where there is z.
void gate(const GatedDeltaRule& op, int64_t t, int64_t head, std::vector<double>& o) {
  if (op.z.is_absent()) return;
  double sum = 0.0;
  for (const double value : o) sum += value * value;
  const double root = std::sqrt(sum / static_cast<double>(o.size()) + static_cast<double>(op.eps));
  for (size_t j = 0; j < o.size(); ++j) {
    const auto d = static_cast<int64_t>(j);
    o[j] *= HostTensor(op.norm)(d) / root * silu(HostTensor(op.z)(t, head, d));
  }
}

/// Recorded rows that sequence `b` commits.
int64_t commit_count(const Tensor& num_commit, int64_t b) {
  return num_commit.is_absent() ? 0 : HostTensor(num_commit).integer(b);
}

/// The rows of sequence `b` through v head `head`.
void run_head(const GatedDeltaRule& op, int64_t b, int64_t head) {
  const HostTensor qkv(op.qkv);
  const HostTensor state(op.state);
  const HostTensor query_start_loc(op.query_start_loc);
  const int64_t num_key_heads = op.num_key_heads();
  const int64_t key_dim = state.dim(2);
  const int64_t value_dim = state.dim(3);
  const int64_t key_head = head / (state.dim(1) / num_key_heads);
  const int64_t slot = HostTensor(op.state_slots).integer(b);
  const int64_t num_commit = commit_count(op.num_commit, b);
  if (query_start_loc.integer(b) == query_start_loc.integer(b + 1)) return;
  HeadState S(state, slot, head);
  commit(op, slot, num_commit, head, S);
  if (num_commit > 0) S.store(state, slot, head);
  for (int64_t t = query_start_loc.integer(b); t < query_start_loc.integer(b + 1); ++t) {
    std::vector<double> q = unit_vector(qkv, t, key_head * key_dim, key_dim);
    const std::vector<double> k = unit_vector(qkv, t, (num_key_heads + key_head) * key_dim, key_dim);
    for (double& value : q) value /= std::sqrt(static_cast<double>(key_dim));
    const double beta = sigmoid(HostTensor(op.b)(t, head));
    const double g = -std::exp(HostTensor(op.A_log)(head)) * softplus(HostTensor(op.a)(t, head) + HostTensor(op.dt_bias)(head));
    S.decay(std::exp(g));
    std::vector<double> delta = S.transposed_times(k);
    for (int64_t j = 0; j < value_dim; ++j) {
      const double v = qkv(t, 2 * num_key_heads * key_dim + head * value_dim + j);
      delta[static_cast<size_t>(j)] = beta * (v - delta[static_cast<size_t>(j)]);
    }
    S.add_outer(k, delta);
    std::vector<double> o = S.transposed_times(q);
    gate(op, t, head, o);
    for (int64_t j = 0; j < value_dim; ++j) HostTensor(op.out).set(o[static_cast<size_t>(j)], t, head, j);
    if (op.update == StateUpdate::kInPlace) continue;
    const int64_t row = t - query_start_loc.integer(b);
    for (int64_t i = 0; i < key_dim; ++i) HostTensor(op.key_record).set(k[static_cast<size_t>(i)], slot, row, head, i);
    for (int64_t j = 0; j < value_dim; ++j) HostTensor(op.delta_record).set(delta[static_cast<size_t>(j)], slot, row, head, j);
    HostTensor(op.decay_record).set(std::exp(g), slot, row, head);
  }
  if (op.update == StateUpdate::kInPlace) S.store(state, slot, head);
}

}  // namespace

void reference(const CausalConv1dSilu& op) {
  const HostTensor x(op.x);
  const HostTensor weight(op.weight);
  const HostTensor conv_state(op.conv_state);
  const HostTensor conv_record(op.conv_record);
  const HostTensor out(op.out);
  const HostTensor query_start_loc(op.query_start_loc);
  for (int64_t b = 0; b + 1 < query_start_loc.dim(0); ++b) {
    const int64_t slot = HostTensor(op.state_slots).integer(b);
    const int64_t begin = query_start_loc.integer(b);
    const int64_t end = query_start_loc.integer(b + 1);
    const int64_t num_commit = begin == end ? 0 : commit_count(op.num_commit, b);
    for (int64_t c = 0; c < x.dim(1); ++c) {
      std::vector<double> inputs;  // the three of the state, the committed ones, then the rows
      const auto push_to_state = [&] {
        for (int64_t j = 0; j < kConvTaps - 1; ++j)
          conv_state.set(inputs[inputs.size() - 3 + static_cast<size_t>(j)], slot, c, j);
      };
      for (int64_t j = 0; j < kConvTaps - 1; ++j) inputs.push_back(conv_state(slot, c, j));
      for (int64_t row = 0; row < num_commit; ++row) inputs.push_back(conv_record(slot, row, c));
      push_to_state();
      for (int64_t t = begin; t < end; ++t) {
        inputs.push_back(x(t, c));
        double sum = 0.0;
        for (int64_t j = 0; j < kConvTaps; ++j) {
          sum += weight(c, j) * inputs[inputs.size() - kConvTaps + static_cast<size_t>(j)];
        }
        out.set(silu(sum), t, c);
        if (op.update == StateUpdate::kRecord) conv_record.set(x(t, c), slot, t - begin, c);
      }
      if (op.update == StateUpdate::kInPlace) push_to_state();
    }
  }
}

void reference(const GatedDeltaRule& op) {
  for (int64_t b = 0; b < op.state_slots.dim(0); ++b) {
    for (int64_t head = 0; head < op.state.dim(1); ++head) run_head(op, b, head);
  }
}

}  // namespace foretoken
