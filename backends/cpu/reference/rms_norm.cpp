#include <cmath>

#include "backends/cpu/reference/host_tensor.h"
#include "backends/cpu/reference/reference.h"

namespace foretoken {
namespace {

/// out[t] = row / sqrt(mean(row^2) + eps) * (1 + weight)
void normalise_row(const std::vector<double>& row, const HostTensor& weight, double eps, const HostTensor& out, int64_t t) {
  double sum = 0.0;
  for (const double x : row) sum += x * x;
  const double root = std::sqrt(sum / static_cast<double>(row.size()) + eps);
  for (size_t h = 0; h < row.size(); ++h) {
    const auto channel = static_cast<int64_t>(h);
    out.set(row[h] / root * (1.0 + weight(channel)), t, channel);
  }
}

}  // namespace

void reference(const RmsNorm& op) {
  const HostTensor x(op.x);
  const HostTensor out(op.out);
  std::vector<double> row(static_cast<size_t>(x.dim(1)));
  for (int64_t t = 0; t < x.dim(0); ++t) {
    for (int64_t h = 0; h < x.dim(1); ++h) row[static_cast<size_t>(h)] = x(t, h);
    normalise_row(row, HostTensor(op.weight), op.eps, out, t);
  }
}

void reference(const AddRmsNorm& op) {
  const HostTensor x(op.x);
  const HostTensor residual(op.residual);
  const HostTensor out(op.out);
  std::vector<double> row(static_cast<size_t>(x.dim(1)));
  for (int64_t t = 0; t < x.dim(0); ++t) {
    for (int64_t h = 0; h < x.dim(1); ++h) {
      const double sum = residual(t, h) + x(t, h);
      row[static_cast<size_t>(h)] = sum;
      residual.set(sum, t, h);
    }
    normalise_row(row, HostTensor(op.weight), op.eps, out, t);
  }
}

}  // namespace foretoken
