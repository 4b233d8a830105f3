#include "backends/vulkan/float_modes.h"

namespace foretoken::vulkan {
namespace {

constexpr size_t kHeaderWords = 5;
constexpr uint32_t kOpExecutionMode = 16;
constexpr uint32_t kOpCapability = 17;
constexpr uint32_t kCapabilityDenormPreserve = 4464;
constexpr uint32_t kModeDenormPreserve = 4459;
constexpr uint32_t kCapabilitySignedZeroInfNanPreserve = 4466;
constexpr uint32_t kModeSignedZeroInfNanPreserve = 4461;

/// Whether an instruction asks for a mode that is not in `modes`.
bool asks_too_much(std::span<const uint32_t> instruction, FloatModes modes) {
  const uint32_t operation = instruction[0] & 0xffffU;
  const auto is_one_of = [&](uint32_t word, uint32_t subnormals, uint32_t nan) {
    return (word == subnormals && !modes.keeps_subnormals) || (word == nan && !modes.keeps_nan);
  };
  if (operation == kOpCapability && instruction.size() == 2) {
    return is_one_of(instruction[1], kCapabilityDenormPreserve, kCapabilitySignedZeroInfNanPreserve);
  }
  if (operation == kOpExecutionMode && instruction.size() > 2) {
    return is_one_of(instruction[2], kModeDenormPreserve, kModeSignedZeroInfNanPreserve);
  }
  return false;
}

}  // namespace

std::vector<uint32_t> with_float_modes(std::span<const uint32_t> code, FloatModes modes) {
  std::vector<uint32_t> all(code.begin(), code.end());
  if (code.size() < kHeaderWords) return all;
  std::vector<uint32_t> kept(code.begin(), code.begin() + kHeaderWords);
  for (std::span<const uint32_t> rest = code.subspan(kHeaderWords); !rest.empty();) {
    const size_t words = rest[0] >> 16;  // of this instruction
    if (words == 0 || words > rest.size()) return all;
    const std::span<const uint32_t> instruction = rest.first(words);
    if (!asks_too_much(instruction, modes)) kept.insert(kept.end(), instruction.begin(), instruction.end());
    rest = rest.subspan(words);
  }
  return kept;
}

}  // namespace foretoken::vulkan
