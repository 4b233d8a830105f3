// Where weights come from: named tensors with bytes, or with a recipe that a device can follow by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"
#include "core/tensor.h"

namespace foretoken {

/// Called on the loading thread with bytes done and in all, first with 0, last with both equal.
using LoadProgressFn = std::function<void(uint64_t done, uint64_t total)>;

/// One tensor of a source.
struct SourceTensor {
  std::string name;
  std::string dtype_name;      // as the source writes it, for example "F16"
  std::optional<DType> dtype;  // nothing for dtypes that this library does not compute with
  Shape shape;
  uint64_t bytes = 0;
  std::string origin;  // for errors: where it lies
};

/// Parameters of the RandomFill operator that makes a tensor's bytes on a device.
struct RandomRecipe {
  uint64_t seed = 0;
  uint64_t tensor_id = 0;
  int exponent = 0;
  float offset = 0.0F;
};

/// Const members are thread-safe.
class WeightSource {
 public:
  WeightSource() = default;
  WeightSource(const WeightSource&) = delete;
  WeightSource& operator=(const WeightSource&) = delete;
  virtual ~WeightSource() = default;

  /// What the source is called in errors: a directory, or "synth:...".
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// All tensors, in the order in which reading them is fastest. Indices below are into this list.
  [[nodiscard]] virtual std::span<const SourceTensor> tensors() const = 0;
  /// Index of a tensor, nothing when it is not there.
  [[nodiscard]] virtual std::optional<size_t> find(std::string_view tensor_name) const = 0;
  /// Bytes [begin, begin + count) of a tensor: a view of mapped memory, or of `scratch` after it was filled. Valid until the next
  /// call with the same scratch. Throws InvalidArgument when the range reaches past the end.
  [[nodiscard]] virtual std::span<const std::byte> read(size_t index, uint64_t begin, size_t count,
                                                        std::vector<std::byte>& scratch) const = 0;
  /// Says that mapped bytes that read() gave are not needed any more.
  virtual void release(std::span<const std::byte> bytes) const = 0;
  /// How a device makes the tensor itself; nothing when the bytes must be read.
  [[nodiscard]] virtual std::optional<RandomRecipe> recipe(size_t index) const = 0;
  /// Where a tensor lies in device memory already, contiguous and for longer than the source; null when it must be brought there.
  [[nodiscard]] virtual const Tensor* resident(size_t /*index*/) const { return nullptr; }
};

/// The tensors of a source by name. Throws FormatError for a name that appears twice.
[[nodiscard]] std::map<std::string, size_t, std::less<>> index_by_name(std::span<const SourceTensor> tensors);

/// Throws InvalidArgument unless bytes [begin, begin + count) lie in `tensor`.
void check_source_range(const SourceTensor& tensor, uint64_t begin, size_t count);

}  // namespace foretoken
