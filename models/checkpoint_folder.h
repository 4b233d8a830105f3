// What writers of checkpoint folders share: a folder that fills completely or not at all, and how tensors spread over shards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace foretoken {

/// The folder being filled: on destruction without `keep` everything that was written into it goes, and the folder when it is
/// new.
class NewDirectory {
 public:
  /// Throws InvalidArgument unless `path` can be made or is an empty directory.
  explicit NewDirectory(std::filesystem::path path);
  ~NewDirectory();
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Throws InvalidArgument that says what `what` needs and what is there.
  void require_space(uint64_t bytes, const std::string& what) const;
  void keep() { kept_ = true; }

 private:
  void clear() noexcept;

  std::filesystem::path path_;
  std::filesystem::path made_;
  bool kept_ = false;
};

/// Runs [begin, end) of items of these sizes that share a shard; an item larger than `shard_bytes` is a shard by itself.
[[nodiscard]] std::vector<std::pair<size_t, size_t>> split_shards(std::span<const uint64_t> item_bytes, uint64_t shard_bytes);

/// "model.safetensors", or "model-00002-of-00007.safetensors" for the second of seven.
[[nodiscard]] std::string shard_name(size_t shard, size_t num_shards);

/// model.safetensors.index.json for tensors by name and the file of each. Throws DeviceError.
void write_shard_index(const std::filesystem::path& directory, const std::map<std::string, std::string>& weight_map,
                       uint64_t total_bytes);

/// A file of `text` and a newline. Throws DeviceError when the disk refuses.
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace foretoken
