#include "models/weight_map_foreign.h"

#include <array>

#include "core/error.h"

namespace foretoken {
namespace {

[[noreturn]] void refuse(const WeightCatalog& catalog, size_t index, const std::string& method) {
  const SourceTensor& tensor = catalog.tensor(index);
  throw Error(ErrorCode::kUnsupported,
              {.what = "tensor " + tensor.name + " is stored by a method that is not supported: " + method,
               .where = tensor.origin,
               .expected = "a weight in F32, BF16, FP8 (E4M3) or NVFP4",
               .got = describe(tensor)});
}

/// A tensor that only one method writes.
struct Mark {
  const char* suffix;
  const char* method;
};

constexpr std::array kMarks{
    Mark{.suffix = ".weight.absmax", .method = "bitsandbytes"},
    Mark{.suffix = ".SCB", .method = "bitsandbytes (LLM.int8)"},
    Mark{.suffix = ".W_q", .method = "HQQ"},
    Mark{.suffix = "_blocks", .method = "MXFP4"},
    Mark{.suffix = ".weight_blocks", .method = "MXFP4"},
    Mark{.suffix = ".pre_quant_scale", .method = "NVFP4 AWQ (pre_quant_scale)"},
};

/// What a .weight or .weight_packed of a dtype that holds no weight here must be; empty when it is none of these.
std::string method_of_integers(const WeightCatalog& catalog, const std::string& base, const SourceTensor& weight, bool packed) {
  if (weight.dtype_name == "I32" && packed) return "compressed-tensors pack-quantized integers";
  if (weight.dtype_name == "I8") return "8-bit integers (INT8)";
  if (weight.dtype_name == "U32" && catalog.contains(base + ".biases")) return "MLX (affine groups)";
  return {};
}

}  // namespace

void refuse_foreign_method(const WeightCatalog& catalog, const std::string& base, int64_t n, int64_t k) {
  for (const Mark& mark : kMarks) {
    if (const auto found = catalog.source().find(base + mark.suffix)) refuse(catalog, *found, mark.method);
  }
  if (const auto qweight = catalog.source().find(base + ".qweight")) {
    // Both pack integers into I32: AWQ along N, GPTQ along K.
    const Shape& shape = catalog.tensor(*qweight).shape;
    const bool along_n = shape.rank() == 2 && shape[0] == k && shape[1] < n;
    refuse(catalog, *qweight, along_n && !catalog.contains(base + ".g_idx") ? "AWQ" : "GPTQ");
  }
  for (const char* suffix : {".weight", ".weight_packed", ""}) {
    const auto found = catalog.source().find(base + suffix);
    if (!found) continue;
    const std::string method = method_of_integers(catalog, base, catalog.tensor(*found), suffix == std::string(".weight_packed"));
    if (!method.empty()) refuse(catalog, *found, method);
  }
}

void refuse_e8m0(const WeightCatalog& catalog, size_t scale, const std::string& method) {
  const SourceTensor& tensor = catalog.tensor(scale);
  if (tensor.dtype_name != "F8_E8M0" && tensor.dtype_name != "U8") return;
  throw Error(ErrorCode::kUnsupported,
              {.what = "tensor " + tensor.name + " holds E8M0 scales, those of " + method + ", which is not supported",
               .where = tensor.origin,
               .expected = "scales in E4M3 (NVFP4), F32 or BF16 (FP8)",
               .got = describe(tensor)});
}

}  // namespace foretoken
