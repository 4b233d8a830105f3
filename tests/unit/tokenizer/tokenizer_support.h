// What the tokenizer tests share: the bundled tokenizer, reference values, and small tokenizer.json files made on the spot.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer.h"

namespace foretoken::test {

using Ids = std::vector<int32_t>;

[[nodiscard]] std::filesystem::path data_path(std::string_view name);
[[nodiscard]] nlohmann::json read_json(const std::filesystem::path& path);

/// The tokenizer of tests/data/tiny-dense, loaded once.
[[nodiscard]] const Tokenizer& tiny_tokenizer();

/// Values of the int32 tensor `name` in a safetensors file.
[[nodiscard]] Ids read_ids(const std::filesystem::path& safetensors, const std::string& name);

/// A valid tokenizer.json: ids 0..255 are the bytes, 256 "ab", 257 "abc", 300 the special token "<|im_start|>"; ByteLevel alone.
[[nodiscard]] nlohmann::json small_tokenizer_json();

/// An entry of added_tokens with every flag false.
[[nodiscard]] nlohmann::json added_token(int id, const std::string& content);

}  // namespace foretoken::test
