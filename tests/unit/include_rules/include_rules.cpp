#include "include_rules.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <regex>
#include <sstream>

namespace foretoken::include_rules {
namespace {

// What a folder may include besides itself. backends: its own top-level headers; backend: backends/<name>/; reference: the oracle
// of the conformance suite, which lies in backends/cpu/reference/ and is no device; conformance: the suite,
// backends/conformance/.
struct FolderRule {
  std::string_view folder;
  std::vector<std::string_view> may_include;
};

const std::vector<FolderRule>& folder_rules() {
  static const std::vector<FolderRule> rules{
      {"core", {}},
      {"backends", {"core"}},
      {"reference", {"core"}},
      {"conformance", {"core", "backends", "reference"}},
      {"backend", {"core", "backends"}},
      {"cache", {"core", "backends"}},
      {"layers", {"core", "backends"}},
      {"models", {"core", "backends", "layers"}},
      {"speculative", {"core", "backends", "cache", "layers", "models"}},
      {"apps", {"core", "backends", "reference", "conformance", "cache", "layers", "models", "speculative"}},
      {"tests", {"core", "backends", "backend", "reference", "conformance", "cache", "layers", "models", "speculative", "apps"}},
  };
  return rules;
}

// Headers that belong to one backend's SDK.
struct SdkRule {
  std::string_view backend;
  std::regex header;
};

const std::vector<SdkRule>& sdk_rules() {
  static const std::vector<SdkRule> rules{
      {"cuda", std::regex("(cuda|cublas|cudnn|cusparse|nvrtc|nvml|nvtx|cooperative_groups|cub/|thrust/|device_launch).*")},
      {"hip", std::regex("(hip/|hip_|hiprtc|hipblas|rocm|rocblas|rocwmma|hsa/).*")},
      {"vulkan", std::regex("(vulkan/|volk|vk_|shaderc/|spirv).*")},
      {"cpu", std::regex("(oneapi/|dnnl|mkl).*")},
  };
  return rules;
}

/// core, backends, reference, conformance, backend (backends/<name>/), cache, ... ; empty for a path outside the project's
/// folders.
std::string_view folder_of(std::string_view path) {
  const size_t slash = path.find('/');
  if (slash == std::string_view::npos) return {};
  if (path.starts_with("backends/cpu/reference/")) return "reference";
  if (path.starts_with("backends/conformance/")) return "conformance";
  std::string_view top = path.substr(0, slash);
  if (top == "backends" && path.find('/', slash + 1) != std::string_view::npos) top = "backend";
  const auto rule = std::ranges::find(folder_rules(), top, &FolderRule::folder);
  if (rule == folder_rules().end()) return {};
  return rule->folder;
}

/// "cpu" for backends/cpu/..., and for tests/unit/cpu/..., where white-box tests of a backend live.
std::string_view backend_of(std::string_view path) {
  for (const std::string_view prefix : {"backends/", "tests/unit/"}) {
    if (!path.starts_with(prefix)) continue;
    const std::string_view rest = path.substr(prefix.size());
    const size_t slash = rest.find('/');
    return slash == std::string_view::npos ? std::string_view{} : rest.substr(0, slash);
  }
  return {};
}

bool may_include_folder(std::string_view folder, std::string_view target) {
  const auto rule = std::ranges::find(folder_rules(), folder, &FolderRule::folder);
  return folder == target || std::ranges::find(rule->may_include, target) != rule->may_include.end();
}

/// Blanks comments and keeps line breaks; with `literals`, the contents of string literals too.
std::string blanked(std::string_view text, bool literals) {
  std::string out(text);
  enum class In : uint8_t { kCode, kLine, kBlock, kString, kChar } in = In::kCode;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view pair = text.substr(i, 2);
    const char c = text[i];
    const bool was_comment = in == In::kLine || in == In::kBlock;
    if (in == In::kCode) {
      if (pair == "//") in = In::kLine;
      if (pair == "/*") in = In::kBlock;
      if (c == '"') in = In::kString;
      if (c == '\'' && (i == 0 || std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0)) in = In::kChar;  // not 1'000
      if (in == In::kLine || in == In::kBlock) out[i] = ' ';
      continue;
    }
    if (c == '\n') {
      if (in != In::kBlock) in = In::kCode;
      continue;
    }
    const bool closes = (in == In::kString && c == '"') || (in == In::kChar && c == '\'');
    if (was_comment || (literals && !closes)) out[i] = ' ';
    if (in == In::kBlock && pair == "*/") {
      out[++i] = ' ';
      in = In::kCode;
    } else if (closes) {
      in = In::kCode;
    } else if (!was_comment && c == '\\' && i + 1 < text.size()) {
      if (literals) out[i + 1] = ' ';
      ++i;
    }
  }
  return out;
}

class FileChecker {
 public:
  explicit FileChecker(std::string_view file) : file_(file), folder_(folder_of(file)), backend_(backend_of(file)) {}

  std::vector<Violation> run(std::string_view text) {
    if (folder_.empty()) return {};
    static const std::regex include(R"re(^\s*#\s*include\s*(["<])([^">]+)[">])re");
    std::istringstream code(blanked(text, /*literals=*/false));
    std::istringstream names(blanked(text, /*literals=*/true));
    std::string code_line;
    std::string names_line;
    std::smatch match;
    for (line_ = 1; std::getline(code, code_line) && std::getline(names, names_line); ++line_) {
      if (std::regex_search(code_line, match, include)) {
        check_include(match[2].str(), match[1].str() == "\"");
      } else {
        check_names(names_line);
      }
    }
    return std::move(violations_);
  }

 private:
  void report(const std::string& message) { violations_.push_back({std::string(file_), line_, message}); }

  bool is_registry() const { return file_ == "backends/registry.cpp"; }

  void check_include(const std::string& header, bool quoted) {
    for (const SdkRule& sdk : sdk_rules()) {
      if (std::regex_match(header, sdk.header) && backend_ != sdk.backend && !(backend_ == "gpu" && folder_ == "backend")) {
        report("<" + header + "> belongs in backends/" + std::string(sdk.backend) + "/ alone");
        return;
      }
    }
    std::string path = header;
    if (quoted && folder_of(path).empty()) {  // beside the including file
      path = (std::filesystem::path(file_).parent_path() / header).lexically_normal().generic_string();
    }
    if (const std::string_view target = folder_of(path); !target.empty()) {
      check_project_include(path, target);
    } else if (folder_ == "core" && header.find('/') != std::string::npos) {
      static const std::regex allowed("(fmt|spdlog|sys)/.*");
      if (!std::regex_match(header, allowed))
        report("core may include the standard library, fmt and spdlog, not <" + header + ">");
    }
  }

  void check_project_include(const std::string& path, std::string_view target) {
    if (target == "backend") {
      const std::string_view owner = backend_of(path);
      const bool own = folder_ == "backend" && (owner == backend_ || owner == "gpu");
      if (!own && !is_registry() && folder_ != "tests") {
        report("only backends/registry.cpp may name a concrete backend, got \"" + path + "\"");
      }
      return;
    }
    if (!may_include_folder(folder_, target)) {
      report(std::string(file_.substr(0, file_.find('/'))) + " may not include " + std::string(target) + ", got \"" + path +
             "\"");
    }
  }

  void check_names(const std::string& line) {
    if (folder_ == "backend" || folder_ == "tests" || is_registry()) return;
    static const std::regex concrete(
        R"(\b((Cpu|Cuda|Hip|Vulkan|Null)(Backend|Provider|Stream|Buffer|CommandList|Program|Event|Kernel)\w*)"
        R"(|(cpu|cuda|hip|vulkan)::\w+|(make_)?(cpu|cuda|hip|vulkan|null)_(backend|provider)\w*))");
    std::smatch match;
    if (std::regex_search(line, match, concrete)) {
      report("only backends/registry.cpp may name a concrete backend, got " + match[0].str());
    }
  }

  std::string_view file_;
  std::string_view folder_;
  std::string_view backend_;
  int line_ = 0;
  std::vector<Violation> violations_;
};

}  // namespace

bool is_source(const std::filesystem::path& file) {
  static constexpr std::array kExtensions{".h", ".hpp", ".c", ".cpp", ".inl", ".cu", ".cuh", ".hip", ".comp", ".glsl"};
  return std::ranges::find(kExtensions, file.extension().string()) != kExtensions.end();
}

std::vector<Violation> check(std::string_view file, std::string_view text) { return FileChecker(file).run(text); }

}  // namespace foretoken::include_rules
