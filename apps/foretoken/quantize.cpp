// `foretoken quantize`.
#include <fmt/format.h>

#include "apps/foretoken/console.h"
#include "apps/foretoken/exit_status.h"
#include "apps/foretoken/options.h"
#include "backends/registry.h"
#include "core/error.h"
#include "models/checkpoint_quantizer.h"

namespace foretoken::cli {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kFp8Block, WeightFormat::kFp8Row, WeightFormat::kNvfp4};

QuantizeOptions quantize_options(const Options& options) {
  if (!options.has("format")) options.fail("option --format is required: fp8-block, fp8-row or nvfp4");
  QuantizeOptions wanted;
  wanted.format = kFormats[options.choice("format", {"fp8-block", "fp8-row", "nvfp4"})];
  wanted.block_scale_dtype = options.choice("scale-dtype", {"f32", "bf16"}) == 0 ? DType::kF32 : DType::kBF16;
  if (options.has("scale-dtype") && wanted.format != WeightFormat::kFp8Block) {
    options.fail("option --scale-dtype is for --format fp8-block: other formats have one dtype of scales");
  }
  try {
    wanted.scope = parse_quantize_scope(options.required_text("scope"));
  } catch (const Error& error) {
    options.fail("option --scope: " + std::string(error.what()));
  }
  return wanted;
}

}  // namespace

int run_quantize(const Options& options) {
  const std::string model = options.required_text("model");
  const std::string output = options.required_text("output");
  QuantizeOptions wanted = quantize_options(options);
  const auto threads = static_cast<int>(options.integer("threads", 0, 1024));
  const std::unique_ptr<GpuBackend> backend =
      BackendRegistry::instance().open(options.text("backend").value_or(""), {.num_threads = threads});

  note_interrupts();
  Progress progress("quantising " + model);
  wanted.progress = [&](uint64_t done, uint64_t total) {
    stop_if_interrupted(output);
    progress.update(done, total);
  };
  const QuantizeSummary summary = quantize_checkpoint(*backend, model, output, wanted);
  fmt::print("{}: {:.2f} GB of {:.2f} GB, {} matrices in {}\n", output, static_cast<double>(summary.result_bytes) / 1e9,
             static_cast<double>(summary.source_bytes) / 1e9, summary.num_quantized, to_string(wanted.format));
  return kExitOk;
}

}  // namespace foretoken::cli
