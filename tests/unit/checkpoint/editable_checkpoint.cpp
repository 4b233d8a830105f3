#include "tests/unit/checkpoint/editable_checkpoint.h"

#include "models/checkpoint.h"
#include "models/safetensors_writer.h"
#include "tests/unit/checkpoint/test_files.h"

namespace foretoken::test {

HostTensor HostTensor::rows(int64_t begin, int64_t count) const {
  const size_t row = bytes.size() / static_cast<size_t>(shape[0]);
  const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(row) * begin;
  return {.dtype = dtype, .shape = shape.with_rows(count), .bytes = {first, first + static_cast<std::ptrdiff_t>(row) * count}};
}

HostTensor HostTensor::at(int64_t index) const {
  HostTensor slice = rows(index, 1);
  slice.shape = Shape(shape.extents().subspan(1));
  return slice;
}

HostTensor zeros(DType dtype, const Shape& shape) {
  const size_t bytes = dtype_bytes(dtype, static_cast<size_t>(shape.num_elements()));
  return {.dtype = dtype, .shape = shape, .bytes = std::vector<std::byte>(bytes)};
}

HostTensor concatenate(const std::vector<HostTensor>& parts) {
  HostTensor all{.dtype = parts.front().dtype, .shape = {}, .bytes = {}};
  int64_t rows = 0;
  for (const HostTensor& part : parts) {
    all.bytes.insert(all.bytes.end(), part.bytes.begin(), part.bytes.end());
    rows += part.shape[0];
  }
  all.shape = parts.front().shape.with_rows(rows);
  return all;
}

EditableCheckpoint::EditableCheckpoint(const std::filesystem::path& directory)
    : config(nlohmann::json::parse(read_file(directory / "config.json"))) {
  const Checkpoint checkpoint(directory);
  std::vector<std::byte> scratch;
  for (size_t i = 0; i < checkpoint.tensors().size(); ++i) {
    const SourceTensor& tensor = checkpoint.tensors()[i];
    const auto bytes = checkpoint.read(i, 0, tensor.bytes, scratch);
    tensors[tensor.name] = {.dtype = tensor.dtype.value(), .shape = tensor.shape, .bytes = {bytes.begin(), bytes.end()}};
  }
}

void EditableCheckpoint::write(const std::filesystem::path& directory) const {
  write_file(directory / "config.json", config.dump());
  write_tensors(directory / "model.safetensors", tensors);
}

void EditableCheckpoint::rename_prefix(const std::string& from, const std::string& to) {
  std::map<std::string, HostTensor> renamed;
  for (auto& [name, tensor] : tensors) {
    renamed[name.starts_with(from) ? to + name.substr(from.size()) : name] = std::move(tensor);
  }
  tensors = std::move(renamed);
}

void EditableCheckpoint::erase_prefix(const std::string& prefix) {
  std::erase_if(tensors, [&](const auto& item) { return item.first.starts_with(prefix); });
}

void EditableCheckpoint::split_experts() {
  const std::map<std::string, HostTensor> before = tensors;
  for (const auto& [name, tensor] : before) {
    const bool is_gate_up = name.ends_with("experts.gate_up_proj");
    if (!is_gate_up && !name.ends_with("experts.down_proj")) continue;
    const std::string prefix = name.substr(0, name.rfind('.') + 1);
    for (int64_t expert = 0; expert < tensor.shape[0]; ++expert) {
      const HostTensor slice = tensor.at(expert);
      const std::string base = prefix + std::to_string(expert) + ".";
      const int64_t half = slice.shape[0] / 2;
      if (is_gate_up) {
        tensors[base + "gate_proj.weight"] = slice.rows(0, half);
        tensors[base + "up_proj.weight"] = slice.rows(half, half);
      } else {
        tensors[base + "down_proj.weight"] = slice;
      }
    }
    tensors.erase(name);
  }
}

void EditableCheckpoint::interleave_projections() {
  const nlohmann::json& text = config.contains("text_config") ? config["text_config"] : config;
  const int64_t heads = text["linear_num_key_heads"];
  const int64_t ratio = text["linear_num_value_heads"].get<int64_t>() / heads;
  const int64_t key = text["linear_key_head_dim"];
  const int64_t value = ratio * text["linear_value_head_dim"].get<int64_t>();
  const std::map<std::string, HostTensor> before = tensors;
  for (const auto& [name, qkv] : before) {
    const size_t at = name.find("in_proj_qkv.weight");
    if (at == std::string::npos) continue;
    const std::string prefix = name.substr(0, at);
    const auto part = [&](const char* suffix) { return before.at(prefix + suffix); };
    std::vector<HostTensor> qkvz;
    std::vector<HostTensor> ba;
    for (int64_t head = 0; head < heads; ++head) {
      qkvz.push_back(qkv.rows(head * key, key));
      qkvz.push_back(qkv.rows((heads + head) * key, key));
      qkvz.push_back(qkv.rows(2 * heads * key + head * value, value));
      qkvz.push_back(part("in_proj_z.weight").rows(head * value, value));
      ba.push_back(part("in_proj_b.weight").rows(head * ratio, ratio));
      ba.push_back(part("in_proj_a.weight").rows(head * ratio, ratio));
    }
    for (const char* old : {"in_proj_qkv.weight", "in_proj_z.weight", "in_proj_b.weight", "in_proj_a.weight"}) {
      tensors.erase(prefix + old);
    }
    tensors[prefix + "in_proj_qkvz.weight"] = concatenate(qkvz);
    tensors[prefix + "in_proj_ba.weight"] = concatenate(ba);
  }
}

void write_tensors(const std::filesystem::path& path, const std::map<std::string, HostTensor>& tensors) {
  std::vector<SafetensorsTensor> declared;
  for (const auto& [name, tensor] : tensors) declared.push_back({.name = name, .dtype = tensor.dtype, .shape = tensor.shape});
  SafetensorsWriter writer(path, declared);
  for (const auto& [name, tensor] : tensors) writer.append(tensor.bytes);
  writer.finish();
}

}  // namespace foretoken::test
