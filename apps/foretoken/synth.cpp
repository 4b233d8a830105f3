// `foretoken synth`.
#include "models/synth.h"

#include <fmt/format.h>

#include "apps/foretoken/console.h"
#include "apps/foretoken/exit_status.h"
#include "apps/foretoken/options.h"

namespace foretoken::cli {

int run_synth(const Options& options) {
  SynthSpec spec = parse_synth_spec(options.required_text("like"));
  if (options.has("layers")) spec.num_layers = options.integer("layers", 0, INT32_MAX);
  if (options.has("seed")) spec.seed = static_cast<uint64_t>(options.integer("seed", 0, INT64_MAX));
  const std::string output = options.required_text("output");
  const SynthSource source(spec);

  note_interrupts();
  Progress progress("writing " + output);
  uint64_t bytes = 0;
  const auto on_bytes = [&](uint64_t done, uint64_t total) {
    stop_if_interrupted(output);
    bytes = total;
    progress.update(done, total);
  };
  write_synth_checkpoint(source, output, {.progress = on_bytes});
  fmt::print("{}: {:.2f} GB, random weights like {}\n", output, static_cast<double>(bytes) / 1e9, spec.model);
  return kExitOk;
}

}  // namespace foretoken::cli
