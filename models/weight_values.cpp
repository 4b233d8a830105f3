#include "models/weight_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "core/error.h"

namespace foretoken {
namespace {

[[noreturn]] void refuse(const SourceTensor& tensor, uint64_t element, const std::string& expected, const std::string& got) {
  throw Error(ErrorCode::kFormatError, {.what = "tensor " + tensor.name + " holds a value that no weight can have",
                                        .where = tensor.origin + ", element " + std::to_string(element),
                                        .expected = expected,
                                        .got = got});
}

bool is_nan_code(std::byte code) { return (code & std::byte{0x7f}) == std::byte{0x7f}; }

}  // namespace

void check_e4m3(const SourceTensor& tensor, uint64_t begin, std::span<const std::byte> bytes) {
  // Without a branch per byte, so that the compiler makes vectors of it.
  constexpr size_t kBlock = 4096;
  for (size_t block = 0; block < bytes.size(); block += kBlock) {
    const auto codes = bytes.subspan(block, std::min(kBlock, bytes.size() - block));
    uint8_t found = 0;
    for (const std::byte code : codes) found |= static_cast<uint8_t>(is_nan_code(code));
    if (found == 0) continue;
    const auto at = std::ranges::find_if(codes, is_nan_code);
    refuse(tensor, begin + block + static_cast<uint64_t>(at - codes.begin()), "finite E4M3 codes",
           *at == std::byte{0x7f} ? "0x7f (NaN)" : "0xff (NaN)");
  }
}

void check_scales(const SourceTensor& tensor, uint64_t begin, std::span<const std::byte> bytes, bool divides) {
  const bool is_bf16 = tensor.dtype == DType::kBF16;
  const size_t width = is_bf16 ? sizeof(uint16_t) : sizeof(float);
  for (size_t i = 0; i < bytes.size() / width; ++i) {
    uint16_t bits = 0;
    float value = 0.0F;
    std::memcpy(is_bf16 ? static_cast<void*>(&bits) : &value, bytes.data() + i * width, width);
    if (is_bf16) value = bf16_to_float(bits);
    const bool fits = std::isfinite(value) && (!divides || (value > 0.0F && std::isfinite(1.0F / value)));
    if (!fits) refuse(tensor, begin / width + i, divides ? "a positive scale" : "a finite scale", std::to_string(value));
  }
}

}  // namespace foretoken
