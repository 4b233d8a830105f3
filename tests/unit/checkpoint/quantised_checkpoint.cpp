#include "tests/unit/checkpoint/quantised_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace foretoken::test {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

double value_at(const HostTensor& tensor, int64_t index) {
  const auto i = static_cast<size_t>(index);
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(tensor.bytes.at(at)); };
  uint16_t bits = 0;
  float value = 0.0F;
  switch (tensor.dtype) {
    case DType::kF32: std::memcpy(&value, tensor.bytes.data() + 4 * i, 4); return value;
    case DType::kBF16: std::memcpy(&bits, tensor.bytes.data() + 2 * i, 2); return bf16_to_float(bits);
    case DType::kE4M3: return e4m3_to_float(byte(i));
    case DType::kU8: return e2m1_to_float(static_cast<uint8_t>(byte(i / 2) >> (4 * (i % 2)) & 0xf));
    default: throw std::logic_error("no value of this dtype");
  }
}

/// Value that the scale tensor [...] holds for element (n, k) of a matrix [N, K].
double scale_for(const HostTensor& scale, const Shape& weight, int64_t n, int64_t k) {
  const Shape& shape = scale.shape;
  const int64_t blocks = ceil_div(weight[1], kFp8BlockExtent);
  if (scale.dtype == DType::kE4M3) return value_at(scale, n * shape[1] + k / kNvfp4Group);
  if (shape.num_elements() == 1) return value_at(scale, 0);
  if (shape.num_elements() == weight[0] && (shape.rank() == 1 || shape[1] == 1)) return value_at(scale, n);
  return value_at(scale, n / kFp8BlockExtent * blocks + k / kFp8BlockExtent);
}

}  // namespace

std::string to_string(Stored stored) {
  switch (stored) {
    case Stored::kFp8Tensor: return "Fp8Tensor";
    case Stored::kFp8Row: return "Fp8Row";
    case Stored::kFp8RowFlat: return "Fp8RowFlat";
    case Stored::kFp8BlockF32: return "Fp8BlockF32";
    case Stored::kFp8BlockBf16: return "Fp8BlockBf16";
    case Stored::kFp8BlockNamedScale: return "Fp8BlockNamedScale";
    case Stored::kNvfp4ModelOpt: return "Nvfp4ModelOpt";
    case Stored::kNvfp4Packed: return "Nvfp4Packed";
  }
  return "unknown";
}

WeightFormat format_of(Stored stored) {
  if (stored <= Stored::kFp8RowFlat) return WeightFormat::kFp8Row;
  return stored <= Stored::kFp8BlockNamedScale ? WeightFormat::kFp8Block : WeightFormat::kNvfp4;
}

HostTensor random_codes(DType dtype, const Shape& shape, uint64_t seed) {
  HostTensor tensor = zeros(dtype, shape);
  std::mt19937_64 random(seed);
  for (std::byte& code : tensor.bytes) {
    do {
      code = static_cast<std::byte>(random() >> 56);
    } while (dtype == DType::kE4M3 && (code & std::byte{0x7f}) == std::byte{0x7f});
  }
  return tensor;
}

HostTensor random_scales(DType dtype, const Shape& shape, uint64_t seed) {
  HostTensor tensor = zeros(dtype, shape);
  std::mt19937_64 random(seed);
  const size_t width = dtype_bits(dtype) / 8;
  for (size_t i = 0; i < tensor.bytes.size() / width; ++i) {
    const float value = 0.25F + static_cast<float>(random() >> 40) * 0x1p-24F * 3.75F;
    const uint16_t bf16 = float_to_bf16(value);
    const uint8_t e4m3 = float_to_e4m3(value);
    const void* source = dtype == DType::kF32 ? static_cast<const void*>(&value) : dtype == DType::kBF16 ? &bf16 : nullptr;
    std::memcpy(tensor.bytes.data() + i * width, source == nullptr ? &e4m3 : source, width);
  }
  return tensor;
}

void quantise(EditableCheckpoint& checkpoint, const std::string& base, Stored stored, uint64_t seed) {
  const Shape shape = checkpoint.tensors.at(base + ".weight").shape;
  const int64_t n = shape[0];
  const int64_t k = shape[1];
  const Shape blocks{ceil_div(n, kFp8BlockExtent), ceil_div(k, kFp8BlockExtent)};
  auto& tensors = checkpoint.tensors;
  tensors.erase(base + ".weight");
  if (format_of(stored) == WeightFormat::kNvfp4) {
    const bool packed = stored == Stored::kNvfp4Packed;
    tensors[base + (packed ? ".weight_packed" : ".weight")] = random_codes(DType::kU8, {n, k / 2}, seed);
    tensors[base + ".weight_scale"] = random_scales(DType::kE4M3, {n, k / kNvfp4Group}, seed + 1);
    tensors[base + (packed ? ".weight_global_scale" : ".weight_scale_2")] =
        random_scales(DType::kF32, packed ? Shape{1} : Shape{}, seed + 2);
    tensors[base + (packed ? ".input_global_scale" : ".input_scale")] = random_scales(DType::kF32, {1}, seed + 3);
    return;
  }
  tensors[base + ".weight"] = random_codes(DType::kE4M3, shape, seed);
  tensors[base + ".input_scale"] = random_scales(DType::kF32, {}, seed + 3);
  switch (stored) {
    case Stored::kFp8Tensor: tensors[base + ".weight_scale"] = random_scales(DType::kF32, {}, seed + 1); break;
    case Stored::kFp8Row: tensors[base + ".weight_scale"] = random_scales(DType::kBF16, {n, 1}, seed + 1); break;
    case Stored::kFp8RowFlat: tensors[base + ".weight_scale"] = random_scales(DType::kF32, {n}, seed + 1); break;
    case Stored::kFp8BlockF32: tensors[base + ".weight_scale_inv"] = random_scales(DType::kF32, blocks, seed + 1); break;
    case Stored::kFp8BlockBf16: tensors[base + ".weight_scale_inv"] = random_scales(DType::kBF16, blocks, seed + 1); break;
    default: tensors[base + ".weight_scale"] = random_scales(DType::kBF16, blocks, seed + 1); break;
  }
}

double stored_element(const EditableCheckpoint& checkpoint, const std::string& base, int64_t n, int64_t k) {
  const auto find = [&](const std::string& name) -> const HostTensor* {
    const auto found = checkpoint.tensors.find(base + name);
    return found == checkpoint.tensors.end() ? nullptr : &found->second;
  };
  const HostTensor* packed = find(".weight_packed");
  const HostTensor& weight = packed != nullptr ? *packed : checkpoint.tensors.at(base + ".weight");
  const int64_t columns = weight.shape[1] * (weight.dtype == DType::kU8 ? 2 : 1);
  const Shape shape{weight.shape[0], columns};
  double value = value_at(weight, n * columns + k);
  for (const char* name : {".weight_scale", ".weight_scale_inv"}) {
    if (const HostTensor* scale = find(name)) value *= scale_for(*scale, shape, n, k);
  }
  if (const HostTensor* global = find(".weight_scale_2")) value *= value_at(*global, 0);
  if (const HostTensor* global = find(".weight_global_scale")) value *= double{1.0F / static_cast<float>(value_at(*global, 0))};
  return value;
}

std::vector<std::string> linears(const EditableCheckpoint& checkpoint, const std::string& prefix,
                                 const std::vector<std::string>& parts) {
  std::vector<std::string> found;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (!name.starts_with(prefix) || !name.ends_with(".weight") || tensor.shape.rank() != 2) continue;
    const std::string base = name.substr(0, name.size() - 7);
    const std::string last = base.substr(base.rfind('.') + 1);
    if (std::ranges::find(parts, last) != parts.end()) found.push_back(base);
  }
  return found;
}

}  // namespace foretoken::test
