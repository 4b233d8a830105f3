// Whatever a file holds, a plan fills each of its tensors exactly, from bytes that are there, or there is an error.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "models/weight_map.h"
#include "tests/unit/checkpoint/loaded_weights.h"
#include "tests/unit/checkpoint/quantised_checkpoint.h"

namespace foretoken::test {
namespace {

/// Tensors without bytes.
class Headers final : public WeightSource {
 public:
  explicit Headers(std::vector<SourceTensor> tensors) : tensors_(std::move(tensors)), by_name_(index_by_name(tensors_)) {}
  const std::string& name() const override { return name_; }
  std::span<const SourceTensor> tensors() const override { return tensors_; }
  std::optional<size_t> find(std::string_view tensor_name) const override {
    const auto found = by_name_.find(tensor_name);
    return found == by_name_.end() ? std::nullopt : std::optional(found->second);
  }
  std::span<const std::byte> read(size_t, uint64_t, size_t, std::vector<std::byte>&) const override { return {}; }
  void release(std::span<const std::byte>) const override {}
  std::optional<RandomRecipe> recipe(size_t) const override { return std::nullopt; }

 private:
  std::string name_ = "headers";
  std::vector<SourceTensor> tensors_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

SourceTensor header(std::string name, const std::string& dtype_name, const Shape& shape) {
  SourceTensor tensor;
  tensor.name = std::move(name);
  tensor.dtype_name = dtype_name;
  tensor.dtype = parse_safetensors_dtype(dtype_name);
  tensor.shape = shape;
  tensor.bytes = dtype_bytes(tensor.dtype.value_or(DType::kBF16), static_cast<size_t>(shape.num_elements()));
  tensor.origin = "headers";
  return tensor;
}

std::vector<SourceTensor> headers_of(const EditableCheckpoint& checkpoint) {
  std::vector<SourceTensor> tensors;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    tensors.push_back(header(name, std::string(to_string(tensor.dtype)), tensor.shape));
  }
  return tensors;
}

void expect_exact(const WeightPlan& plan, const WeightSource& source) {
  for (const PlannedTensor& planned : plan.tensors) {
    uint64_t filled = 0;
    for (const WeightPiece& piece : planned.pieces) {
      const uint64_t widened = planned.conversion == Conversion::kBf16ToF32 ? 2 : 1;
      EXPECT_EQ(piece.target_begin, filled) << planned.name;
      filled += piece.bytes * piece.copies * widened;
      const uint64_t there = source.tensors()[piece.tensor].bytes;
      EXPECT_TRUE(piece.bytes > 0 && piece.source_begin <= there && piece.bytes <= there - piece.source_begin) << planned.name;
    }
    EXPECT_EQ(filled, planned.bytes()) << planned.name << " " << planned.shape.to_string();
  }
}

/// Changes one tensor of `tensors` in one way.
void mutate(std::vector<SourceTensor>& tensors, std::mt19937_64& random) {
  const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
  const size_t at = below(tensors.size());
  const SourceTensor old = tensors[at];
  constexpr std::array kDtypes{"F32", "BF16", "F8_E4M3", "U8", "I32", "F8_E8M0", "F16", "I8"};
  constexpr std::array kSuffixes{".weight",        ".weight_scale", ".weight_scale_inv",    ".weight_scale_2",
                                 ".weight_packed", ".qweight",      ".weight_global_scale", "_scale",
                                 ".input_scale"};
  std::vector<int64_t> extents(old.shape.extents().begin(), old.shape.extents().end());
  switch (below(5)) {
    case 0: tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(at)); return;
    case 1: tensors[at] = header(old.name, kDtypes[below(kDtypes.size())], old.shape); return;
    case 2:
      if (!extents.empty()) {
        int64_t& extent = extents[below(extents.size())];
        const std::array<int64_t, 5> values{extent + 1, extent - 1, extent / 2, 1, 0};
        extent = values[below(values.size())];
      }
      tensors[at] = header(old.name, old.dtype_name, Shape(extents));
      return;
    case 3:
      if (extents.empty())
        extents.push_back(1);
      else
        extents.pop_back();
      tensors[at] = header(old.name, old.dtype_name, Shape(extents));
      return;
    default:
      const std::string name = old.name.substr(0, old.name.rfind('.')) + kSuffixes[below(kSuffixes.size())];
      const auto same = [&](const SourceTensor& tensor) { return tensor.name == name; };
      if (std::ranges::none_of(tensors, same)) tensors[at] = header(name, old.dtype_name, old.shape);
      return;
  }
}

TEST(PlanProperty, EveryPlanIsExactAndEveryOtherFileIsAnError) {
  std::vector<EditableCheckpoint> seeds{EditableCheckpoint(bundled("tiny-next-fp8")), EditableCheckpoint(bundled("tiny-dense")),
                                        EditableCheckpoint(bundled("tiny-moe"))};
  const std::vector<std::string> parts{"q_proj", "o_proj", "in_proj_qkv", "gate_proj", "up_proj", "down_proj"};
  for (const std::string& base : linears(seeds[1], "", parts)) quantise(seeds[1], base, Stored::kNvfp4ModelOpt, 1);
  seeds[2].split_experts();
  for (const std::string& base : linears(seeds[2], "", parts)) quantise(seeds[2], base, Stored::kFp8Tensor, 1);
  std::mt19937_64 random(17);
  size_t planned = 0;
  size_t refused = 0;
  for (const EditableCheckpoint& seed : seeds) {
    const ModelConfig config = parse_model_config(seed.config.dump(), "seed");
    const std::vector<SourceTensor> original = headers_of(seed);
    expect_exact(*plan_weights(Headers(original), config), Headers(original));
    for (int i = 0; i < 1500; ++i) {
      std::vector<SourceTensor> tensors = original;
      for (uint64_t changes = 1 + random() % 2; changes > 0; --changes) mutate(tensors, random);
      const Headers source(tensors);
      try {
        expect_exact(*plan_weights(source, config), source);
        ++planned;
      } catch (const Error& error) {
        EXPECT_TRUE(error.code() == ErrorCode::kFormatError || error.code() == ErrorCode::kUnsupported) << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(planned, 100U);
  EXPECT_GT(refused, 1000U);
}

}  // namespace
}  // namespace foretoken::test
