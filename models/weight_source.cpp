#include "models/weight_source.h"

#include "core/error.h"

namespace foretoken {

std::map<std::string, size_t, std::less<>> index_by_name(std::span<const SourceTensor> tensors) {
  std::map<std::string, size_t, std::less<>> by_name;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto [found, inserted] = by_name.emplace(tensors[i].name, i);
    if (!inserted) {
      throw Error(ErrorCode::kFormatError, {.what = "tensor " + tensors[i].name + " is there twice",
                                            .where = tensors[found->second].origin,
                                            .got = "another one in " + tensors[i].origin});
    }
  }
  return by_name;
}

void check_source_range(const SourceTensor& tensor, uint64_t begin, size_t count) {
  if (begin <= tensor.bytes && count <= tensor.bytes - begin) return;
  throw Error(ErrorCode::kInvalidArgument, {.what = "read past the end of tensor " + tensor.name,
                                            .where = tensor.origin,
                                            .expected = "at most " + std::to_string(tensor.bytes) + " bytes",
                                            .got = std::to_string(begin) + " + " + std::to_string(count)});
}

}  // namespace foretoken
