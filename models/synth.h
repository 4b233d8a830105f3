// Random weights in the shapes of released models, the same bytes everywhere: in memory, on a device, or as a checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "models/model_config.h"
#include "models/weight_source.h"

namespace foretoken {

struct SynthSpec {
  std::string model;       // one of synth_model_names()
  int64_t num_layers = 0;  // 1 to the full number; 0: all
  uint64_t seed = 1;
};

/// Whether a model argument asks for synthetic weights ("synth:...").
[[nodiscard]] bool is_synth_spec(std::string_view text);
/// "synth:qwen3.5-27b:layers=16:seed=1"; "synth:" may be left out. Throws InvalidArgument: unknown model (lists the known ones),
/// unknown or repeated option, a number out of range.
[[nodiscard]] SynthSpec parse_synth_spec(std::string_view text);
[[nodiscard]] std::vector<std::string> synth_model_names();
/// The config that such a checkpoint has. A cut to N layers keeps the order of layer types. Throws InvalidArgument.
[[nodiscard]] ModelConfig synth_config(const SynthSpec& spec);

/// Makes bytes as they are asked for: element i of a tensor is random_weight_integer(seed, FNV-1a 64 of its name, i) scaled by a
/// power of two such that activations stay near 1, exact in the tensor's dtype. Tensors are named and stored as in the released
/// checkpoints: fused experts for Qwen3.5 and 3.6, one tensor per expert and interleaved projections for Qwen3-Next.
class SynthSource final : public WeightSource {
 public:
  /// Throws InvalidArgument.
  explicit SynthSource(const SynthSpec& spec);
  /// Weights for the model that the text of a config.json describes; `name` names the source in errors. Throws FormatError.
  SynthSource(std::string config_json, std::string name, uint64_t seed);

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] const std::string& config_json() const { return config_json_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::span<const SourceTensor> tensors() const override { return tensors_; }
  [[nodiscard]] std::optional<size_t> find(std::string_view tensor_name) const override;
  [[nodiscard]] std::span<const std::byte> read(size_t index, uint64_t begin, size_t count,
                                                std::vector<std::byte>& scratch) const override;
  void release(std::span<const std::byte>) const override {}
  [[nodiscard]] std::optional<RandomRecipe> recipe(size_t index) const override { return recipes_[index]; }

 private:
  std::string name_;
  std::string config_json_;
  ModelConfig config_;
  std::vector<SourceTensor> tensors_;
  std::vector<RandomRecipe> recipes_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

struct SynthWriteOptions {
  std::function<void(uint64_t done, uint64_t total)> progress{};  // bytes
  uint64_t shard_bytes = 4'000'000'000;                           // a larger tensor is a shard by itself
};

/// Writes a checkpoint directory: model.safetensors, or shards with an index when it is larger than one; config.json and
/// generation_config.json, no tokenizer. Throws InvalidArgument (the directory is not empty, the disk too small) and DeviceError;
/// leaves nothing behind then.
void write_synth_checkpoint(const SynthSource& source, const std::filesystem::path& directory,
                            const SynthWriteOptions& options = {});

}  // namespace foretoken
