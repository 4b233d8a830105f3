#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/reference/activation.h"
#include "backends/cpu/reference/host_tensor.h"
#include "backends/cpu/reference/reference.h"

namespace foretoken {
namespace {

/// One query head of row `t` of sequence `b`, over the first `length` positions.
void attend(const GatedAttention& op, int64_t b, int64_t t, int64_t h, int64_t length) {
  const HostTensor q(op.q);
  const HostTensor gate(op.q_gate);
  const HostTensor k_cache(op.k_cache);
  const HostTensor v_cache(op.v_cache);
  const HostTensor block_table(op.block_table);
  const HostTensor out(op.out);
  const double k_scale = op.k_scale ? HostTensor(op.k_scale)(0) : 1.0;
  const double v_scale = op.v_scale ? HostTensor(op.v_scale)(0) : 1.0;
  const int64_t head_dim = q.dim(2);
  const int64_t block_size = k_cache.dim(1);
  const int64_t kv_head = h / (q.dim(1) / k_cache.dim(2));

  std::vector<double> query;
  for (int64_t d = 0; d < head_dim; ++d) query.push_back(q(t, h, d));
  std::vector<double> scores;
  for (int64_t position = 0; position < length; ++position) {
    const int64_t block = block_table.integer(b, position / block_size);
    double score = 0.0;
    for (int64_t d = 0; d < head_dim; ++d)
      score += query[static_cast<size_t>(d)] * k_cache(block, position % block_size, kv_head, d);
    scores.push_back(score * k_scale * static_cast<double>(op.scale));
  }
  const double largest = *std::ranges::max_element(scores);
  double sum = 0.0;
  for (double& score : scores) {
    score = std::exp(score - largest);
    sum += score;
  }
  std::vector<double> mixed(static_cast<size_t>(head_dim));
  for (int64_t position = 0; position < length; ++position) {
    const int64_t block = block_table.integer(b, position / block_size);
    const double share = scores[static_cast<size_t>(position)] / sum;
    for (int64_t d = 0; d < head_dim; ++d) {
      mixed[static_cast<size_t>(d)] += share * v_cache(block, position % block_size, kv_head, d);
    }
  }
  for (int64_t d = 0; d < head_dim; ++d) {
    out.set(mixed[static_cast<size_t>(d)] * v_scale * sigmoid(gate(t, h, head_dim + d)), t, h, d);
  }
}

}  // namespace

void reference(const GatedAttention& op) {
  const HostTensor query_start_loc(op.query_start_loc);
  const HostTensor seq_lens(op.seq_lens);
  for (int64_t b = 0; b < seq_lens.dim(0); ++b) {
    const int64_t begin = query_start_loc.integer(b);
    const int64_t end = query_start_loc.integer(b + 1);
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t h = 0; h < op.q.dim(1); ++h) attend(op, b, t, h, seq_lens.integer(b) - (end - begin) + (t - begin) + 1);
    }
  }
}

}  // namespace foretoken
