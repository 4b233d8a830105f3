#include "backends/hip/hip_architecture.h"

#include <fmt/format.h>

#include <charconv>

namespace foretoken::hip {
namespace {

constexpr uint32_t kCdna2 = 0x90a;
constexpr uint32_t kCdna3 = 0x940;

/// gfx90a, gfx94x and all of gfx10 and later; gfx90c, which has a larger number than gfx90a, is older.
bool reads_nvfp4(uint32_t architecture) { return architecture == kCdna2 || architecture >= kCdna3; }

}  // namespace

uint32_t amd_architecture(std::string_view name) {
  constexpr std::string_view kPrefix = "gfx";
  if (!name.starts_with(kPrefix)) return 0;
  name = name.substr(kPrefix.size(), name.find(':') - kPrefix.size());
  uint32_t architecture = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), architecture, 16);
  return error == std::errc{} && end == name.data() + name.size() ? architecture : 0;
}

std::string amd_name(uint32_t architecture) { return fmt::format("gfx{:x}", architecture); }

std::string amd_missing_matrix_instructions(uint32_t architecture) {
  const bool is_cdna = architecture == kCdna2 || (architecture >= kCdna3 && architecture <= 0x950);
  const bool is_rdna = (architecture >= 0x1100 && architecture < 0x1200) || architecture == 0x1200 || architecture == 0x1201;
  if (is_cdna || is_rdna) return {};
  return "BF16 matrices are multiplied by gfx90a, gfx94x, gfx950, gfx11, gfx1200 and gfx1201, this is " + amd_name(architecture);
}

std::vector<WeightFormatSupport> amd_weight_formats(uint32_t architecture) {
  const Availability yes = Availability::yes();
  const Availability integers = Availability::no("codes are converted by integer instructions");
  const Availability nvfp4 =
      reads_nvfp4(architecture)
          ? yes
          : Availability::no("NVFP4 begins with " + amd_name(kCdna2) + " and gfx10, this is " + amd_name(architecture));
  return {
      {.format = WeightFormat::kF32, .storable = yes, .fast = Availability::no("twice the bytes of BF16"), .native = yes},
      {.format = WeightFormat::kBF16, .storable = yes, .fast = yes, .native = yes},
      {.format = WeightFormat::kFp8Row, .storable = yes, .fast = yes, .native = integers},
      {.format = WeightFormat::kFp8Block, .storable = yes, .fast = yes, .native = integers},
      {.format = WeightFormat::kNvfp4, .storable = nvfp4, .fast = nvfp4, .native = nvfp4 ? integers : nvfp4},
  };
}

}  // namespace foretoken::hip
