// A small checkpoint in host memory that a test changes and writes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace foretoken::test {

struct HostTensor {
  DType dtype = DType::kBF16;
  Shape shape;
  std::vector<std::byte> bytes;

  /// Rows [begin, begin + count) of a tensor whose row is everything behind the first extent.
  [[nodiscard]] HostTensor rows(int64_t begin, int64_t count) const;
  /// Slice of axis 0 without that axis.
  [[nodiscard]] HostTensor at(int64_t index) const;
};

/// Zeros.
[[nodiscard]] HostTensor zeros(DType dtype, const Shape& shape);
/// Stacks tensors of equal row size along axis 0.
[[nodiscard]] HostTensor concatenate(const std::vector<HostTensor>& parts);

struct EditableCheckpoint {
  nlohmann::json config;
  std::map<std::string, HostTensor> tensors;

  /// Reads a checkpoint directory.
  explicit EditableCheckpoint(const std::filesystem::path& directory);
  /// Writes config.json and one model.safetensors.
  void write(const std::filesystem::path& directory) const;
  /// Gives each tensor under `from` the prefix `to` instead.
  void rename_prefix(const std::string& from, const std::string& to);
  void erase_prefix(const std::string& prefix);
  /// Replaces fused expert tensors by one per expert, or the other way round.
  void split_experts();
  /// Replaces the four projections of the delta net by Qwen3-Next's two interleaved ones.
  void interleave_projections();
};

/// Writes one file with these tensors.
void write_tensors(const std::filesystem::path& path, const std::map<std::string, HostTensor>& tensors);

}  // namespace foretoken::test
