#include "models/checkpoint_folder.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/error.h"

namespace foretoken {

NewDirectory::NewDirectory(std::filesystem::path path) : path_(std::move(path)) {
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

NewDirectory::~NewDirectory() {
  if (!kept_) clear();
}

void NewDirectory::require_space(uint64_t bytes, const std::string& what) const {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(path_, error);
  if (error || space.available >= bytes) return;
  throw Error(ErrorCode::kInvalidArgument, {.what = "not enough disk space for " + what,
                                            .where = path_.string(),
                                            .expected = std::to_string(bytes) + " bytes",
                                            .got = std::to_string(space.available)});
}

void NewDirectory::clear() noexcept {
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

std::vector<std::pair<size_t, size_t>> split_shards(std::span<const uint64_t> item_bytes, uint64_t shard_bytes) {
  std::vector<std::pair<size_t, size_t>> shards;
  uint64_t bytes = 0;
  for (size_t i = 0; i < item_bytes.size(); ++i) {
    if (shards.empty() || bytes + item_bytes[i] > shard_bytes) {
      shards.emplace_back(i, i);
      bytes = 0;
    }
    bytes += item_bytes[i];
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

void write_shard_index(const std::filesystem::path& directory, const std::map<std::string, std::string>& weight_map,
                       uint64_t total_bytes) {
  const nlohmann::json index{{"metadata", {{"total_size", total_bytes}}}, {"weight_map", weight_map}};
  write_text(directory / "model.safetensors.index.json", index.dump(2));
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << '\n';
  file.close();
  if (!file) throw Error(ErrorCode::kDeviceError, {.what = "write failed", .where = path.string()});
}

}  // namespace foretoken
