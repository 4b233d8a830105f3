#include "quantized_checkpoints.h"

#include <cctype>
#include <stdexcept>

#include "backends/registry.h"
#include "models/checkpoint_quantizer.h"
#include "tests/support/golden.h"
#include "tests/unit/checkpoint/test_files.h"

namespace foretoken::test {
namespace {

/// How a checkpoint that is not bundled is made.
struct Recipe {
  const char* source;
  QuantizeOptions options;
};

Recipe recipe_of(const std::string& name) {
  if (name == "tiny-dense-fp8") return {"tiny-dense", {.format = WeightFormat::kFp8Block, .block_scale_dtype = DType::kBF16}};
  if (name == "tiny-dense-nvfp4") return {"tiny-dense", {.format = WeightFormat::kNvfp4, .scope = {.mtp = false}}};
  const QuantizeScope all{.lm_head = true};
  if (name == "tiny-moe-fp8-row") return {"tiny-moe", {.format = WeightFormat::kFp8Row, .scope = all}};
  if (name == "tiny-moe-nvfp4") return {"tiny-moe", {.format = WeightFormat::kNvfp4, .scope = all}};
  if (name == "tiny-moe-fp8") return {"tiny-moe", {.format = WeightFormat::kFp8Block}};
  throw std::logic_error("no recipe for " + name);
}

}  // namespace

std::string quantized_checkpoint(const std::string& name) {
  if (std::filesystem::exists(data_path(name))) return data_path(name).string();
  static const TemporaryFolder folder;
  const std::filesystem::path made = folder.path() / name;
  if (!std::filesystem::exists(made)) {
    const auto [source, options] = recipe_of(name);
    const auto backend = BackendRegistry::instance().open("cpu");
    quantize_checkpoint(*backend, data_path(source), made, options);
  }
  return made.string();
}

Availability usable_on(const GpuBackend& backend, const std::string& name) {
  const bool is_bundled = std::filesystem::exists(data_path(name));
  const WeightFormat format = is_bundled ? WeightFormat::kFp8Block : recipe_of(name).options.format;
  return backend.capabilities().weight_format(format).storable;
}

std::string instance_name(const std::string& checkpoint) {
  std::string name;
  bool upper = true;
  for (const char c : checkpoint) {
    if (c != '-') name += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = c == '-';
  }
  return name;
}

}  // namespace foretoken::test
