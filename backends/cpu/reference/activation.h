// Scalar functions of the formulas, in float64.
#pragma once

#include <cmath>

namespace foretoken {

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }
inline double softplus(double x) { return x > 30.0 ? x : std::log1p(std::exp(x)); }

}  // namespace foretoken
