#include "core/kv_view.h"

#include <string>

#include "core/error.h"

namespace foretoken {

void check_kv_scales(std::string_view op, const PagedKvView& kv) {
  const auto fail = [op](const std::string& message) {
    throw Error(ErrorCode::kInvalidArgument, std::string(op) + ": " + message);
  };
  if (kv.k_cache.dtype() != kv.v_cache.dtype()) {
    fail("k_cache is " + std::string(to_string(kv.k_cache.dtype())) + ", v_cache is " +
         std::string(to_string(kv.v_cache.dtype())) + ", expected one dtype");
  }
  const bool needed = kv.k_cache.dtype() == DType::kE4M3;
  const auto check_scale = [&](const char* name, const Tensor& scale) {
    if (needed && scale.is_absent()) fail(std::string(name) + " is missing, a cache of F8_E4M3 needs it");
    if (!needed && scale)
      fail(std::string(name) + " given, a cache of " + std::string(to_string(kv.k_cache.dtype())) + " takes none");
  };
  check_scale("k_scale", kv.k_scale);
  check_scale("v_scale", kv.v_scale);
}

}  // namespace foretoken
