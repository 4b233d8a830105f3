// Element types of a KV cache as the kernels know them: kernel sources include nothing of core/ that has code.
#pragma once

#include <cstdint>

namespace foretoken::cpu {

enum class CacheDType : uint8_t {
  kF32,
  kBF16,
  kE4M3,  // code * scale
};

}  // namespace foretoken::cpu
