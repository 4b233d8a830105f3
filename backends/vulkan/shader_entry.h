// How a shader looks to the host: its name, its code and the size of its parameters. Each family of shaders has a list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace foretoken::vulkan {

/// SPIR-V of one shader, once for each place where its parameters may lie.
struct ShaderCode {
  std::span<const uint32_t> pushed;     // parameters are push constants
  std::span<const uint32_t> in_memory;  // the push constant is the address of the parameters
};

struct ShaderEntry {
  std::string name;
  size_t params_bytes;
  ShaderCode code;
  uint32_t num_threads;  // of a work group, a multiple of 32: specialisation constant 0
};

using ShaderList = std::vector<ShaderEntry>;

/// Makes an entry of a shader whose parameters mirror `Params`.
template <class Params>
ShaderEntry shader_entry(std::string name, const ShaderCode& code, uint32_t num_threads) {
  static_assert(std::is_trivially_copyable_v<Params> && std::is_standard_layout_v<Params>);
  return {.name = std::move(name), .params_bytes = sizeof(Params), .code = code, .num_threads = num_threads};
}

/// Threads of a work group that walks over a row of logits: their number shows in no result.
inline constexpr uint32_t kRowThreads = 512;

void add_attention_shaders(ShaderList& list);
void add_delta_net_shaders(ShaderList& list);
void add_linear_shaders(ShaderList& list);
void add_norm_shaders(ShaderList& list);
void add_quantize_shaders(ShaderList& list);
void add_sample_shaders(ShaderList& list);
void add_sampling_shaders(ShaderList& list);

/// All shaders of this build.
[[nodiscard]] ShaderList all_shaders();

}  // namespace foretoken::vulkan
