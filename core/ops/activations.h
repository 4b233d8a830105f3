// Dtype lists that many operators share.
#pragma once

#include <vector>

#include "core/dtype.h"

namespace foretoken {

/// Activations: float32 on the CPU, BF16 on GPUs.
inline const std::vector<DType> kActivationDtypes = {DType::kF32, DType::kBF16};
inline const std::vector<DType> kCacheDtypes = {DType::kF32, DType::kBF16, DType::kE4M3};
inline const std::vector<DType> kLinearWeightDtypes = {DType::kF32, DType::kBF16, DType::kE4M3, DType::kE2M1};
inline const std::vector<DType> kScaleDtypes = {DType::kF32, DType::kBF16, DType::kE4M3};
inline const std::vector<DType> kF32Only = {DType::kF32};
inline const std::vector<DType> kI32Only = {DType::kI32};
inline const std::vector<DType> kI64Only = {DType::kI64};

}  // namespace foretoken
