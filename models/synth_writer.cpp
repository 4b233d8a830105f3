#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "core/error.h"
#include "models/safetensors_writer.h"
#include "models/synth.h"

namespace foretoken {
namespace {

constexpr size_t kWriteBytes = size_t{8} << 20;

/// The folder being filled: on destruction without `keep` everything that was written into it goes, and the folder when it is
/// new.
class NewDirectory {
 public:
  explicit NewDirectory(std::filesystem::path path) : path_(std::move(path)) {
    std::error_code error;
    const bool exists = std::filesystem::exists(path_, error);
    if (exists && (!std::filesystem::is_directory(path_, error) || !std::filesystem::is_empty(path_, error) || error)) {
      throw Error(ErrorCode::kInvalidArgument,
                  {.what = "cannot write a checkpoint here", .where = path_.string(), .expected = "a new or empty directory"});
    }
    // The outermost folder that has to be made, so that a failure takes back those above the last one too.
    for (std::filesystem::path folder = std::filesystem::absolute(path_).lexically_normal();
         !exists && !std::filesystem::exists(folder, error) && folder.has_relative_path(); folder = folder.parent_path()) {
      made_ = folder;
    }
    std::filesystem::create_directories(path_, error);
    if (error) {
      const std::string reason = error.message();
      clear();
      throw Error(ErrorCode::kInvalidArgument, {.what = "cannot make the directory: " + reason, .where = path_.string()});
    }
  }
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;
  ~NewDirectory() {
    if (!kept_) clear();
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  void clear() noexcept {
    std::error_code error;
    if (!made_.empty()) {
      std::filesystem::remove_all(made_, error);
      return;
    }
    // The directory was there and empty, so all that it holds now was written here.
    for (std::filesystem::directory_iterator entry(path_, error), end; !error && entry != end; entry.increment(error)) {
      std::error_code ignored;
      std::filesystem::remove(entry->path(), ignored);
    }
  }

  std::filesystem::path path_;
  std::filesystem::path made_;
  bool kept_ = false;
};

/// Indices of tensors [begin, end) per shard.
std::vector<std::pair<size_t, size_t>> split_shards(std::span<const SourceTensor> tensors, uint64_t shard_bytes) {
  std::vector<std::pair<size_t, size_t>> shards;
  uint64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (shards.empty() || bytes + tensors[i].bytes > shard_bytes) {
      shards.emplace_back(i, i);
      bytes = 0;
    }
    bytes += tensors[i].bytes;
    shards.back().second = i + 1;
  }
  return shards;
}

std::string shard_name(size_t shard, size_t num_shards) {
  if (num_shards == 1) return "model.safetensors";
  const auto padded = [](size_t number) {
    const std::string digits = std::to_string(number);
    return std::string(5 - std::min<size_t>(5, digits.size()), '0') + digits;
  };
  return "model-" + padded(shard + 1) + "-of-" + padded(num_shards) + ".safetensors";
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << '\n';
  file.close();
  if (!file) throw Error(ErrorCode::kDeviceError, {.what = "write failed", .where = path.string()});
}

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
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder.path(), error);
  if (!error && space.available < writer.total()) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "not enough disk space for " + source.name(),
                                              .where = directory.string(),
                                              .expected = std::to_string(writer.total()) + " bytes",
                                              .got = std::to_string(space.available)});
  }
  const auto shards = split_shards(source.tensors(), options.shard_bytes);
  nlohmann::json weight_map;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i, shards.size());
    writer.write(folder.path() / name, shards[i].first, shards[i].second);
    for (size_t tensor = shards[i].first; tensor < shards[i].second; ++tensor) weight_map[source.tensors()[tensor].name] = name;
  }
  if (shards.size() > 1) {
    const nlohmann::json index{{"metadata", {{"total_size", writer.total()}}}, {"weight_map", weight_map}};
    write_text(folder.path() / "model.safetensors.index.json", index.dump(2));
  }
  const nlohmann::json generation{{"eos_token_id", source.config().eos_token_ids}};
  write_text(folder.path() / "generation_config.json", generation.dump(2));
  write_text(folder.path() / "config.json", source.config_json());
  folder.keep();
}

}  // namespace foretoken
