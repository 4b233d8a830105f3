// What HIP's compiler made of the hot kernels, for each architecture: the width of a wave, registers that did not suffice, and
// how memory is read. Takes the compiled objects apart with LLVM's tools.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace foretoken::hip {
namespace {

/// What a command prints. An empty text where it fails.
std::string output_of(const std::string& command) {
  struct Close {
    void operator()(FILE* pipe) const { pclose(pipe); }
  };
  const std::unique_ptr<FILE, Close> pipe(popen(command.c_str(), "r"));
  std::string text;
  std::array<char, 65536> buffer{};
  while (const size_t count = pipe == nullptr ? 0 : fread(buffer.data(), 1, buffer.size(), pipe.get())) {
    text.append(buffer.data(), count);
  }
  return text;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// One kernel of a code object: numbers of its metadata, by name, and its instructions.
struct Kernel {
  std::map<std::string, int> metadata;
  std::string instructions;
};
using Kernels = std::map<std::string, Kernel>;  // by mangled name

/// "  .name:  text" as {"name", "text"}; empty for other lines.
std::pair<std::string, std::string> entry_of(const std::string& line) {
  const size_t dot = line.find_first_not_of(" -");
  const size_t colon = line.find(": ");
  if (dot == std::string::npos || line[dot] != '.' || colon == std::string::npos) return {};
  const size_t value = line.find_first_not_of(' ', colon + 1);
  return {line.substr(dot + 1, colon - dot - 1), value == std::string::npos ? "" : line.substr(value)};
}

class CodeObject {
 public:
  /// The code of `source` for `architecture`, unpacked into a folder of its own.
  CodeObject(const std::string& source, const std::string& architecture)
      : folder_(std::filesystem::temp_directory_path() / ("foretoken_isa_" + source + "_" + architecture)) {
    std::filesystem::create_directories(folder_);
    const std::string bundle = (folder_ / "bundle").string();
    code_ = (folder_ / "code").string();
    static_cast<void>(output_of(std::string(FORETOKEN_LLVM_OBJCOPY) +
                                " -O binary --only-section=.hip_fatbin --set-section-flags " + ".hip_fatbin=alloc " +
                                FORETOKEN_HIP_OBJECTS + "/" + source + ".hip.o " + bundle + " 2>&1"));
    static_cast<void>(output_of(std::string(FORETOKEN_OFFLOAD_BUNDLER) + " -unbundle -type=o -targets=hipv4-amdgcn-amd-amdhsa--" +
                                architecture + " -input=" + bundle + " -output=" + code_ + " 2>&1"));
  }
  CodeObject(const CodeObject&) = delete;
  CodeObject& operator=(const CodeObject&) = delete;
  ~CodeObject() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  [[nodiscard]] Kernels kernels() const {
    Kernels kernels;
    read_metadata(kernels);
    read_instructions(kernels);
    return kernels;
  }

 private:
  /// The list of kernels of the note, of which each has its numbers at one depth, and its arguments deeper.
  void read_metadata(Kernels& kernels) const {
    std::map<std::string, int> numbers;
    std::string name;
    const auto finish = [&] {
      if (!name.empty()) kernels[name].metadata = numbers;
      name.clear();
      numbers.clear();
    };
    for (const std::string& line : split(output_of(std::string(FORETOKEN_LLVM_READELF) + " --notes " + code_), '\n')) {
      if (line.starts_with("  - ")) finish();
      if (line.size() < 5 || line[4] != '.') continue;
      const auto [key, value] = entry_of(line);
      if (key == "name") name = value;
      if (!value.empty() && value.find_first_not_of("0123456789") == std::string::npos) numbers[key] = std::stoi(value);
    }
    finish();
  }

  void read_instructions(Kernels& kernels) const {
    Kernel* kernel = nullptr;
    for (const std::string& line :
         split(output_of(std::string(FORETOKEN_LLVM_OBJDUMP) + " -d --no-show-raw-insn " + code_), '\n')) {
      if (!line.empty() && line.back() == ':' && contains(line, "<")) {
        const auto found = kernels.find(line.substr(line.find('<') + 1, line.rfind('>') - line.find('<') - 1));
        kernel = found == kernels.end() ? nullptr : &found->second;
      } else if (kernel != nullptr) {
        kernel->instructions += line.substr(0, line.find("//")) + "\n";
      }
    }
  }

  std::filesystem::path folder_;
  std::string code_;
};

/// Products by weights whose operands are whole vectors, and attention.
bool is_hot(const std::string& name) {
  const bool product = contains(name, "6linearI") || contains(name, "15linear_silu_mulI") || contains(name, "13linear_argmaxI") ||
                       contains(name, "11moe_expertsI");
  const bool aligned = contains(name, "ELb1EEEv") || contains(name, "ELb1ELj");  // the last template argument, or columns follow
  return (product && aligned) || contains(name, "gated_attention_");
}

/// "v_mfma_", "v_wmma_", or nothing where the architecture has none.
std::string matrix_instruction(const std::string& architecture) {
  if (architecture.starts_with("gfx9")) return "v_mfma_f32_16x16x16";
  return architecture.starts_with("gfx10") ? "" : "v_wmma_f32_16x16x16_bf16";
}

bool reads_weights(const std::string& name) { return !contains(name, "gated_attention_"); }

using Case = std::tuple<std::string, std::string>;  // architecture, source

class HipIsa : public testing::TestWithParam<Case> {};
class HipPrefillIsa : public testing::TestWithParam<std::string> {};

int wave_of(const std::string& architecture) { return architecture.starts_with("gfx9") ? 64 : 32; }

std::string vector_load(const std::string& architecture) {
  const bool is_older = architecture.starts_with("gfx9") || architecture.starts_with("gfx10");
  return is_older ? "global_load_dwordx4" : "global_load_b128";
}

TEST_P(HipIsa, HotKernelsKeepToTheirRegistersAndReadVectors) {
  const auto& [architecture, source] = GetParam();
  const Kernels kernels = CodeObject(source, architecture).kernels();
  int num_hot = 0;
  for (const auto& [name, kernel] : kernels) {
    ASSERT_TRUE(kernel.metadata.contains("wavefront_size")) << name;
    EXPECT_EQ(kernel.metadata.at("wavefront_size"), wave_of(architecture)) << name;
    if (!is_hot(name)) continue;
    ++num_hot;
    EXPECT_EQ(kernel.metadata.at("private_segment_fixed_size"), 0) << name << " needs memory for what registers do not hold";
    EXPECT_FALSE(kernel.instructions.empty()) << name;
    EXPECT_FALSE(contains(kernel.instructions, "scratch_")) << name;
    EXPECT_FALSE(contains(kernel.instructions, "flat_load")) << name << " does not know that operands are in device memory";
    EXPECT_TRUE(!reads_weights(name) || contains(kernel.instructions, vector_load(architecture))) << name;
  }
  EXPECT_EQ(num_hot, source == "attention" ? 3 : 16) << "of " << kernels.size() << " kernels";
}

/// The kernels of prefill have matrix instructions where there are any, and are empty elsewhere.
TEST_P(HipPrefillIsa, MultipliesMatricesInItsRegisters) {
  const std::string& architecture = GetParam();
  const Kernels kernels = CodeObject("prefill", architecture).kernels();
  const std::string instruction = matrix_instruction(architecture);
  EXPECT_EQ(kernels.size(), 16U);
  for (const auto& [name, kernel] : kernels) {
    ASSERT_TRUE(kernel.metadata.contains("wavefront_size")) << name;
    EXPECT_EQ(kernel.metadata.at("wavefront_size"), wave_of(architecture)) << name;
    EXPECT_EQ(kernel.metadata.at("private_segment_fixed_size"), 0) << name << " needs memory for what registers do not hold";
    EXPECT_FALSE(contains(kernel.instructions, "scratch_")) << name;
    EXPECT_FALSE(contains(kernel.instructions, "flat_load")) << name << " does not know that operands are in device memory";
    if (instruction.empty()) {
      EXPECT_EQ(kernel.metadata.at("group_segment_fixed_size"), 0) << name;
      continue;
    }
    EXPECT_TRUE(contains(kernel.instructions, instruction)) << name;
    EXPECT_TRUE(contains(kernel.instructions, "ds_read_b128") || contains(kernel.instructions, "ds_load_b128")) << name;
    EXPECT_TRUE(contains(kernel.instructions, vector_load(architecture))) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, HipPrefillIsa, testing::ValuesIn(split(FORETOKEN_HIP_ARCHITECTURES, ',')),
                         [](const auto& test) { return test.param; });

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return std::get<0>(info.param) + "_" + std::get<1>(info.param);
}

INSTANTIATE_TEST_SUITE_P(Kernels, HipIsa,
                         testing::Combine(testing::ValuesIn(split(FORETOKEN_HIP_ARCHITECTURES, ',')),
                                          testing::Values("attention", "weights_bf16", "weights_fp8_row", "weights_fp8_block",
                                                          "weights_nvfp4")),
                         case_name);

}  // namespace
}  // namespace foretoken::hip
