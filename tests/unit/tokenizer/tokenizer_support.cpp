#include "tests/unit/tokenizer/tokenizer_support.h"

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "models/tokenizer_text.h"

namespace foretoken::test {

using nlohmann::json;

std::filesystem::path data_path(std::string_view name) { return std::filesystem::path(FORETOKEN_TEST_DATA) / name; }

json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return json::parse(file);
}

const Tokenizer& tiny_tokenizer() {
  static const Tokenizer kTokenizer = Tokenizer::load(data_path("tiny-dense"));
  return kTokenizer;
}

Ids read_ids(const std::filesystem::path& safetensors, const std::string& name) {
  std::ifstream file(safetensors, std::ios::binary);
  uint64_t header_bytes = 0;
  file.read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes));
  std::string header(header_bytes, '\0');
  file.read(header.data(), static_cast<std::streamsize>(header_bytes));
  const json entry = json::parse(header).at(name);
  if (entry.at("dtype") != "I32") throw std::runtime_error(name + " is not int32");
  const auto begin = entry.at("data_offsets").at(0).get<uint64_t>();
  const auto end = entry.at("data_offsets").at(1).get<uint64_t>();
  Ids ids((end - begin) / sizeof(int32_t));
  file.seekg(static_cast<std::streamoff>(sizeof(header_bytes) + header_bytes + begin));
  file.read(reinterpret_cast<char*>(ids.data()), static_cast<std::streamsize>(end - begin));
  if (!file) throw std::runtime_error("cannot read tensor " + name);
  return ids;
}

json added_token(int id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", false}};
}

json small_tokenizer_json() {
  json vocab = json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[tokenizer_detail::byte_level_character(static_cast<uint8_t>(byte))] = byte;
  vocab["ab"] = 256;
  vocab["abc"] = 257;
  json im_start = added_token(300, "<|im_start|>");
  im_start["special"] = true;
  return {{"version", "1.0"},
          {"added_tokens", json::array({im_start})},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", json::array({"a b", json::array({"ab", "c"})})}}}};
}

}  // namespace foretoken::test
