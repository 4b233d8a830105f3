// Checkpoints whose linear weights are random codes and scales, in every way in which files store them, and what they mean.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/linear_weight.h"
#include "tests/unit/checkpoint/editable_checkpoint.h"

namespace foretoken::test {

/// How a file stores one matrix.
enum class Stored : uint8_t {
  kFp8Tensor,           // weight_scale F32 []
  kFp8Row,              // weight_scale BF16 [N, 1]
  kFp8RowFlat,          // weight_scale F32 [N]
  kFp8BlockF32,         // weight_scale_inv
  kFp8BlockBf16,        // weight_scale_inv
  kFp8BlockNamedScale,  // weight_scale BF16
  kNvfp4ModelOpt,       // weight_scale_2
  kNvfp4Packed          // weight_packed, weight_global_scale: the reciprocal
};

inline constexpr Stored kEveryStored[] = {Stored::kFp8Tensor,     Stored::kFp8Row,       Stored::kFp8RowFlat,
                                          Stored::kFp8BlockF32,   Stored::kFp8BlockBf16, Stored::kFp8BlockNamedScale,
                                          Stored::kNvfp4ModelOpt, Stored::kNvfp4Packed};

[[nodiscard]] std::string to_string(Stored stored);
/// The format that it has once it is loaded.
[[nodiscard]] WeightFormat format_of(Stored stored);

/// Random codes (no NaN), or scales between 0.25 and 4: the same for the same seed.
[[nodiscard]] HostTensor random_codes(DType dtype, const Shape& shape, uint64_t seed);
[[nodiscard]] HostTensor random_scales(DType dtype, const Shape& shape, uint64_t seed);

/// Replaces `base`.weight [N, K] by random codes and scales that depend on `seed` alone. Activation scales are added too.
void quantise(EditableCheckpoint& checkpoint, const std::string& base, Stored stored, uint64_t seed);

/// Element (n, k) of a weight as its file says: the oracle of the loader.
[[nodiscard]] double stored_element(const EditableCheckpoint& checkpoint, const std::string& base, int64_t n, int64_t k);

/// Names without .weight of the linear weights below `prefix` whose last part is one of `parts`.
[[nodiscard]] std::vector<std::string> linears(const EditableCheckpoint& checkpoint, const std::string& prefix,
                                               const std::vector<std::string>& parts);

}  // namespace foretoken::test
