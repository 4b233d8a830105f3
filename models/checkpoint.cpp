#include "models/checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "models/checkpoint_json.h"

namespace foretoken {
namespace {

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr const char* kMtpFile = "mtp.safetensors";

[[noreturn]] void throw_index(const std::filesystem::path& index, const std::string& what, const std::string& expected,
                              const std::string& got) {
  throw Error(ErrorCode::kFormatError, {.what = what, .where = index.string(), .expected = expected, .got = got});
}

/// `weight_map` of an index: tensor name to the name of a file of the same directory.
std::map<std::string, std::string> read_weight_map(const std::filesystem::path& index_path) {
  const nlohmann::json root = parse_json(read_text_file(index_path), index_path.string());
  const bool has_map = root.is_object() && root.contains("weight_map") && root["weight_map"].is_object();
  if (!has_map || root["weight_map"].empty()) {
    throw_index(index_path, "no usable `weight_map`", "an object that is not empty",
                root.is_object() && root.contains("weight_map") ? root["weight_map"].type_name() : "nothing");
  }
  std::map<std::string, std::string> weight_map;
  for (const auto& [tensor, file] : root["weight_map"].items()) {
    const std::string file_name = file.is_string() ? file.get<std::string>() : std::string();
    const bool plain = !file_name.empty() && file_name.find('/') == std::string::npos && file_name != ".." && file_name != "." &&
                       file_name.find('\0') == std::string::npos;
    if (!plain) throw_index(index_path, "bad shard of tensor " + tensor, "the name of a file beside the index", file.dump());
    weight_map.emplace(tensor, file_name);
  }
  return weight_map;
}

}  // namespace

Checkpoint::Checkpoint(const std::filesystem::path& directory) : name_(directory.string()) {
  open_files(directory);
  for (const SafetensorsFile& file : files_) {
    for (const SafetensorsEntry& entry : file.entries()) {
      tensors_.push_back({.name = entry.name,
                          .dtype_name = entry.dtype_name,
                          .dtype = entry.dtype,
                          .shape = entry.shape,
                          .bytes = entry.bytes,
                          .origin = file.path().string() + " at byte " + std::to_string(entry.file_offset)});
      bytes_.push_back(file.bytes(entry));
    }
  }
  by_name_ = index_by_name(tensors_);
}

void Checkpoint::open_files(const std::filesystem::path& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "no such checkpoint directory", .where = directory.string()});
  }
  const std::filesystem::path index_path = directory / kIndexFile;
  if (std::filesystem::exists(index_path, error)) {
    open_shards(directory, index_path);
  } else if (std::filesystem::exists(directory / kSingleFile, error)) {
    files_.emplace_back(directory / kSingleFile);
  } else {
    throw Error(ErrorCode::kFormatError, {.what = "the checkpoint has no weights",
                                          .where = directory.string(),
                                          .expected = std::string(kSingleFile) + " or " + kIndexFile,
                                          .got = "neither"});
  }
  const auto is_mtp_file = [](const SafetensorsFile& file) { return file.path().filename() == kMtpFile; };
  if (std::filesystem::exists(directory / kMtpFile, error) && std::ranges::none_of(files_, is_mtp_file)) {
    files_.emplace_back(directory / kMtpFile);
  }
}

void Checkpoint::open_shards(const std::filesystem::path& directory, const std::filesystem::path& index_path) {
  const std::map<std::string, std::string> weight_map = read_weight_map(index_path);
  std::map<std::string, size_t> file_index;
  for (const auto& [tensor, file_name] : weight_map) file_index.emplace(file_name, 0);
  for (auto& [file_name, number] : file_index) {
    std::error_code error;
    if (!std::filesystem::exists(directory / file_name, error)) {
      throw_index(index_path, "a shard is missing", file_name, "no such file");
    }
    number = files_.size();
    files_.emplace_back(directory / file_name);
  }
  for (const auto& [tensor, file_name] : weight_map) {
    if (files_[file_index.at(file_name)].find(tensor) == nullptr) {
      throw_index(index_path, "tensor " + tensor + " is not in the shard that the index names", file_name, "no such tensor");
    }
  }
  for (const SafetensorsFile& file : files_) {
    for (const SafetensorsEntry& entry : file.entries()) {
      const std::string file_name = file.path().filename().string();
      const auto mapped = weight_map.find(entry.name);
      const std::string expected = mapped == weight_map.end() ? "a tensor of the index" : "only in " + mapped->second;
      if (mapped == weight_map.end() || mapped->second != file_name) {
        throw_index(index_path, "tensor " + entry.name + " is in a shard that the index does not give it", expected, file_name);
      }
    }
  }
}

std::optional<size_t> Checkpoint::find(std::string_view tensor_name) const {
  const auto found = by_name_.find(tensor_name);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

std::span<const std::byte> Checkpoint::read(size_t index, uint64_t begin, size_t count, std::vector<std::byte>&) const {
  check_source_range(tensors_[index], begin, count);
  return bytes_[index].subspan(static_cast<size_t>(begin), count);
}

void Checkpoint::release(std::span<const std::byte> bytes) const {
  for (const SafetensorsFile& file : files_) {
    if (file.contains(bytes)) file.release(bytes);
  }
}

}  // namespace foretoken
