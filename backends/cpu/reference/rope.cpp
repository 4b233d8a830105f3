#include <cmath>

#include "backends/cpu/reference/host_tensor.h"
#include "backends/cpu/reference/reference.h"

namespace foretoken {
namespace {

/// Rotates pairs (i, i + R/2) of `head` by the angles of row `t`.
void rotate(std::vector<double>& head, const HostTensor& cos_sin, int64_t t) {
  const int64_t half = cos_sin.dim(1) / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double cosine = cos_sin(t, i);
    const double sine = cos_sin(t, half + i);
    double& first = head[static_cast<size_t>(i)];
    double& second = head[static_cast<size_t>(i + half)];
    const double rotated = first * cosine - second * sine;
    second = second * cosine + first * sine;
    first = rotated;
  }
}

/// What a code of a cache counts: 1 where the cache has no scale.
double scale_of(const Tensor& scale) { return scale ? HostTensor(scale)(0) : 1.0; }

/// The first `head_dim` elements of head `h` of row `t`, normed with a zero-centred weight and rotated.
std::vector<double> normed_and_rotated(const HostTensor& x, int64_t t, int64_t h, const HostTensor& norm, double eps,
                                       const HostTensor& cos_sin) {
  std::vector<double> head(static_cast<size_t>(norm.dim(0)));
  double sum = 0.0;
  for (int64_t d = 0; d < norm.dim(0); ++d) {
    head[static_cast<size_t>(d)] = x(t, h, d);
    sum += x(t, h, d) * x(t, h, d);
  }
  const double root = std::sqrt(sum / static_cast<double>(head.size()) + eps);
  for (int64_t d = 0; d < norm.dim(0); ++d) head[static_cast<size_t>(d)] *= (1.0 + norm(d)) / root;
  rotate(head, cos_sin, t);
  return head;
}

}  // namespace

void reference(const RopeTable& op) {
  const HostTensor positions(op.positions);
  const HostTensor cos_sin(op.cos_sin);
  const int64_t rotary_dim = cos_sin.dim(1);
  for (int64_t t = 0; t < cos_sin.dim(0); ++t) {
    for (int64_t i = 0; i < rotary_dim / 2; ++i) {
      const double angle = positions(t) * std::pow(op.theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
      cos_sin.set(std::cos(angle), t, i);
      cos_sin.set(std::sin(angle), t, rotary_dim / 2 + i);
    }
  }
}

void reference(const Rope& op) {
  const HostTensor x(op.x);
  std::vector<double> head(static_cast<size_t>(x.dim(2)));
  for (int64_t t = 0; t < x.dim(0); ++t) {
    for (int64_t h = 0; h < x.dim(1); ++h) {
      for (int64_t d = 0; d < x.dim(2); ++d) head[static_cast<size_t>(d)] = x(t, h, d);
      rotate(head, HostTensor(op.cos_sin), t);
      for (int64_t d = 0; d < x.dim(2); ++d) x.set(head[static_cast<size_t>(d)], t, h, d);
    }
  }
}

void reference(const QkNormRopeCache& op) {
  const HostTensor k(op.k);
  const HostTensor v(op.v);
  const HostTensor q(op.q);
  const HostTensor k_cache(op.k_cache);
  const HostTensor v_cache(op.v_cache);
  const HostTensor cos_sin(op.cos_sin);
  const HostTensor slot_mapping(op.slot_mapping);
  const int64_t block_size = k_cache.dim(1);
  const double k_scale = scale_of(op.k_scale);
  const double v_scale = scale_of(op.v_scale);
  for (int64_t t = 0; t < k.dim(0); ++t) {
    for (int64_t h = 0; q && h < q.dim(1); ++h) {
      const auto head = normed_and_rotated(HostTensor(op.q_gate), t, h, HostTensor(op.q_norm), op.eps, cos_sin);
      for (int64_t d = 0; d < q.dim(2); ++d) q.set(head[static_cast<size_t>(d)], t, h, d);
    }
    const int64_t slot = slot_mapping.integer(t);
    if (slot < 0) continue;
    for (int64_t h = 0; h < k.dim(1); ++h) {
      const auto head = normed_and_rotated(k, t, h, HostTensor(op.k_norm), op.eps, cos_sin);
      for (int64_t d = 0; d < k.dim(2); ++d) {
        k_cache.set(head[static_cast<size_t>(d)] / k_scale, slot / block_size, slot % block_size, h, d);
        v_cache.set(v(t, h, d) / v_scale, slot / block_size, slot % block_size, h, d);
      }
    }
  }
}

}  // namespace foretoken
