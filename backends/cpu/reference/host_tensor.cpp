#include "backends/cpu/reference/host_tensor.h"

#include <cstring>

namespace foretoken {
namespace {

template <class T>
T read(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void write(std::byte* data, int64_t index, T value) {
  std::memcpy(data + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

}  // namespace

double load_element(const std::byte* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kF32: return read<float>(data, index);
    case DType::kBF16: return bf16_to_float(read<uint16_t>(data, index));
    case DType::kE4M3: return e4m3_to_float(read<uint8_t>(data, index));
    case DType::kE2M1: {
      const auto pair = read<uint8_t>(data, index / 2);
      return e2m1_to_float(static_cast<uint8_t>(index % 2 == 0 ? pair & 0xfU : pair >> 4));
    }
    case DType::kI32: return read<int32_t>(data, index);
    case DType::kI64: return static_cast<double>(read<int64_t>(data, index));
    case DType::kU8: return read<uint8_t>(data, index);
  }
  return 0.0;
}

void store_element(std::byte* data, DType dtype, int64_t index, double value) {
  switch (dtype) {
    case DType::kF32: return write(data, index, static_cast<float>(value));
    case DType::kBF16: return write(data, index, float_to_bf16(static_cast<float>(value)));
    case DType::kE4M3: return write(data, index, float_to_e4m3(static_cast<float>(value)));
    case DType::kE2M1: {
      const unsigned pair = read<uint8_t>(data, index / 2);
      const unsigned nibble = float_to_e2m1(static_cast<float>(value));
      return write(data, index / 2,
                   static_cast<uint8_t>(index % 2 == 0 ? (pair & 0xf0U) | nibble : (pair & 0x0fU) | nibble << 4));
    }
    case DType::kI32: return write(data, index, static_cast<int32_t>(value));
    case DType::kI64: return write(data, index, static_cast<int64_t>(value));
    case DType::kU8: return write(data, index, static_cast<uint8_t>(value));
  }
}

}  // namespace foretoken
