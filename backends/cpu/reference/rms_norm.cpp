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

void reference(const MtpInput& op) {
  const HostTensor ids(op.ids);
  const HostTensor table(op.table);
  const HostTensor hidden(op.hidden);
  const HostTensor hidden_rows(op.hidden_rows);
  const int64_t width = op.hidden.dim(1);
  const HostTensor embedding_half(op.out.columns(0, width));
  const HostTensor hidden_half(op.out.columns(width, width));
  std::vector<double> row(static_cast<size_t>(width));
  for (int64_t t = 0; t < op.ids.dim(0); ++t) {
    const int64_t id = ids.integer(t);
    const bool known = id >= 0 && id < table.dim(0);
    for (int64_t h = 0; h < width; ++h) row[static_cast<size_t>(h)] = known ? table(id, h) : std::nan("");
    normalise_row(row, HostTensor(op.embedding_norm), op.eps, embedding_half, t);
    const int64_t source = hidden_rows ? hidden_rows.integer(t) : t;
    const bool exists = source >= 0 && source < hidden.dim(0);
    for (int64_t h = 0; h < width; ++h) row[static_cast<size_t>(h)] = exists ? hidden(source, h) : std::nan("");
    normalise_row(row, HostTensor(op.hidden_norm), op.eps, hidden_half, t);
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
