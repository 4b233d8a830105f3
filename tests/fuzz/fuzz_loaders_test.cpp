// The loaders on mutated input: an Error or success, never another exception, never a crash. Run under the sanitizers too.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "core/error.h"
#include "models/checkpoint.h"
#include "models/model_config.h"
#include "models/safetensors.h"
#include "models/synth.h"
#include "models/weight_map.h"
#include "tests/fuzz/mutator.h"

namespace foretoken {
namespace {

using fuzz::Mutator;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::filesystem::path data(std::string_view name) { return std::filesystem::path(FORETOKEN_TEST_DATA) / name; }

/// Runs `fn`; only an Error may leave it. Says whether it succeeded.
bool survives(const std::string& input, const std::function<void()>& fn) {
  try {
    fn();
    return true;
  } catch (const Error& error) {
    EXPECT_STRNE(error.what(), "");
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not an Error: " << error.what() << "\ninput: " << input;
  }
  return false;
}

const std::vector<std::string> kHeaderWords{R"("dtype":)",
                                            R"("shape":[)",
                                            R"("data_offsets":[)",
                                            R"("__metadata__":{)",
                                            R"("BF16")",
                                            R"("F4")",
                                            R"({)",
                                            R"(})",
                                            "[",
                                            "]",
                                            ",",
                                            ":",
                                            R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)",
                                            "null",
                                            "true",
                                            "-",
                                            "\"",
                                            "\\u0000",
                                            "\\ud800",
                                            "\xff"};

TEST(FuzzLoaders, SafetensorsHeaders) {
  const std::string seed =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},"c":{"dtype":"U8","shape":[],"data_offsets":[32,33]}})";
  Mutator mutator(1, kHeaderWords);
  size_t accepted = 0;
  for (int i = 0; i < 60000; ++i) {
    const std::string header = mutator.mutate(seed);
    accepted += survives(header, [&] {
      const uint64_t file_bytes = 8 + header.size() + 33;
      for (const SafetensorsEntry& entry : parse_safetensors_header(header, file_bytes, "fuzz").entries) {
        ASSERT_LE(entry.file_offset, file_bytes);
        ASSERT_LE(entry.bytes, file_bytes - entry.file_offset);
      }
    });
  }
  EXPECT_GT(accepted, 100U) << "some mutants must get past the parser";
}

TEST(FuzzLoaders, SafetensorsFiles) {
  const std::string json = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::string seed = std::string(1, static_cast<char>(json.size())) + std::string(7, '\0') + json + "12345678";
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("foretoken_fuzz_" + std::to_string(::getpid()) + ".safetensors");
  Mutator mutator(2, kHeaderWords);
  for (int i = 0; i < 400; ++i) {
    const std::string bytes = mutator.mutate(seed);
    std::ofstream(path, std::ios::binary) << bytes;
    survives(bytes, [&] {
      const SafetensorsFile file(path);
      unsigned sum = 0;  // touches every byte that the entries promise
      for (const SafetensorsEntry& entry : file.entries()) {
        for (const std::byte b : file.bytes(entry)) sum += std::to_integer<unsigned>(b);
      }
      EXPECT_LE(sum, 255U * bytes.size());
    });
  }
  std::filesystem::remove(path);
}

TEST(FuzzLoaders, ConfigsAndTheWeightMapsThatTheyAskFor) {
  const std::vector<std::string> words{R"("num_experts":8,)",
                                       R"("layer_types":null,)",
                                       R"("model_type":"qwen3_next",)",
                                       R"("eos_token_id":[1,2],)",
                                       R"("rope_theta":)",
                                       R"("text_config":)",
                                       "null",
                                       "[]",
                                       "{}",
                                       "true",
                                       R"("linear_attention",)",
                                       "{",
                                       "}",
                                       "\"",
                                       ",",
                                       "\xc3"};
  for (const char* name : {"tiny-dense", "tiny-moe", "tiny-next-fp8"}) {
    const std::string seed = read_file(data(name) / "config.json");
    const Checkpoint source(data(name));
    Mutator mutator(3, words);
    for (int i = 0; i < 3000; ++i) {
      const std::string text = mutator.mutate(seed);
      survives(text, [&] { (void)plan_weights(source, parse_model_config(text, "fuzz")); });
    }
  }
}

TEST(FuzzLoaders, SyntheticModelNames) {
  Mutator mutator(4, {"synth:", ":layers=", ":seed=", "=", ":", "qwen3.5-2b", "-1", "18446744073709551616"});
  for (int i = 0; i < 5000; ++i) {
    const std::string text = mutator.mutate("synth:qwen3.5-0.8b:layers=4:seed=1");
    survives(text, [&] { (void)parse_synth_spec(text); });
  }
}

}  // namespace
}  // namespace foretoken
