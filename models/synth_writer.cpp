#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/checkpoint_folder.h"
#include "models/safetensors_writer.h"
#include "models/synth.h"

namespace foretoken {
namespace {

constexpr size_t kWriteBytes = size_t{8} << 20;

/// Writes tensors one after the other and reports the bytes.
class ShardWriter {
 public:
  ShardWriter(const SynthSource& source, const std::function<void(uint64_t, uint64_t)>& progress)
      : source_(source), progress_(progress) {
    for (const SourceTensor& tensor : source.tensors()) total_ += tensor.bytes;
  }

  [[nodiscard]] uint64_t total() const { return total_; }

  void write(const std::filesystem::path& path, size_t begin, size_t end) {
    const auto tensors = source_.tensors();
    std::vector<SafetensorsTensor> declared;
    for (size_t i = begin; i < end; ++i) {
      declared.push_back({.name = tensors[i].name, .dtype = *tensors[i].dtype, .shape = tensors[i].shape});
    }
    SafetensorsWriter writer(path, declared);
    for (size_t i = begin; i < end; ++i) {
      for (uint64_t at = 0; at < tensors[i].bytes; at += kWriteBytes) {
        const auto count = static_cast<size_t>(std::min<uint64_t>(kWriteBytes, tensors[i].bytes - at));
        writer.append(source_.read(i, at, count, scratch_));
        done_ += count;
        if (progress_) progress_(done_, total_);
      }
    }
    writer.finish();
  }

 private:
  const SynthSource& source_;
  const std::function<void(uint64_t, uint64_t)>& progress_;
  std::vector<std::byte> scratch_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

}  // namespace

void write_synth_checkpoint(const SynthSource& source, const std::filesystem::path& directory, const SynthWriteOptions& options) {
  ShardWriter writer(source, options.progress);
  NewDirectory folder(directory);
  folder.require_space(writer.total(), source.name());
  std::vector<uint64_t> sizes;
  for (const SourceTensor& tensor : source.tensors()) sizes.push_back(tensor.bytes);
  const auto shards = split_shards(sizes, options.shard_bytes);
  std::map<std::string, std::string> weight_map;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i, shards.size());
    writer.write(folder.path() / name, shards[i].first, shards[i].second);
    for (size_t tensor = shards[i].first; tensor < shards[i].second; ++tensor) weight_map[source.tensors()[tensor].name] = name;
  }
  if (shards.size() > 1) write_shard_index(folder.path(), weight_map, writer.total());
  const nlohmann::json generation{{"eos_token_id", source.config().eos_token_ids}};
  write_text(folder.path() / "generation_config.json", generation.dump(2));
  write_text(folder.path() / "config.json", source.config_json());
  folder.keep();
}

}  // namespace foretoken
