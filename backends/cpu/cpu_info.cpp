#include "backends/cpu/cpu_info.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "backends/cpu/cpu_info_limits.h"
#include "backends/cpu/kernels/linear_params.h"
#include "backends/cpu/onednn.h"
#include "core/error.h"

namespace foretoken::cpu {
namespace {

constexpr std::array kIsas{Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni};

/// Linux keeps the 8 KiB of tile registers off until a process asks for them.
bool request_amx_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool is_amd() {
  __builtin_cpu_init();
  return __builtin_cpu_is("amd") != 0;
}

CpuFeatures detect() {
  // These builtins also ask XGETBV whether the system saves the registers.
  __builtin_cpu_init();
  CpuFeatures features;
  features.avx2_fma_f16c =
      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 && __builtin_cpu_supports("f16c") != 0;
  features.avx512 = features.avx2_fma_f16c && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                    __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  features.avx512_vnni =
      features.avx512 && __builtin_cpu_supports("avx512vnni") != 0 && __builtin_cpu_supports("avx512vbmi") != 0;
  features.avx512_bf16 = features.avx512 && __builtin_cpu_supports("avx512bf16") != 0;
  features.amx_bf16 = features.avx512 && __builtin_cpu_supports("amx-tile") != 0 && __builtin_cpu_supports("amx-bf16") != 0 &&
                      request_amx_tiles();
  return features;
}

std::string brand_string() {
  std::array<unsigned, 12> words{};
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    unsigned* out = &words[size_t{4} * leaf];
    if (__get_cpuid(0x80000002U + leaf, &out[0], &out[1], &out[2], &out[3]) == 0) return "unknown CPU";
  }
  std::string name(reinterpret_cast<const char*>(words.data()), sizeof(words));
  name.resize(std::strlen(name.c_str()));
  while (!name.empty() && name.back() == ' ') name.pop_back();
  name.erase(0, name.find_first_not_of(' '));
  return name.empty() ? "unknown CPU" : name;
}

std::vector<WeightFormatSupport> weight_formats(Isa isa) {
  const CpuFeatures& features = cpu_features();
  const bool has_bf16 = isa >= Isa::kAvx512 && (features.avx512_bf16 || features.amx_bf16);
  std::vector<WeightFormatSupport> list;
  list.push_back({.format = WeightFormat::kF32,
                  .storable = Availability::yes(),
                  .fast = Availability::no("twice the bytes of BF16"),
                  .native = Availability::yes()});
  list.push_back({.format = WeightFormat::kBF16,
                  .storable = Availability::yes(),
                  .fast = Availability::yes(),
                  .native = has_bf16 ? Availability::yes() : Availability::no("neither AVX512_BF16 nor AMX in use on this CPU")});
  const Availability decodes_fast = isa >= Isa::kAvx2 ? Availability::yes() : Availability::no("decoded by table without AVX2");
  for (const WeightFormat format : {WeightFormat::kFp8Row, WeightFormat::kFp8Block}) {
    list.push_back({.format = format,
                    .storable = Availability::yes(),
                    .fast = decodes_fast,
                    .native = Availability::no("CPUs do not compute with FP8")});
  }
  const Availability has_nvfp4 = isa >= Isa::kAvx2 ? Availability::yes() : Availability::no(std::string(kNvfp4Needs));
  list.push_back({.format = WeightFormat::kNvfp4,
                  .storable = has_nvfp4,
                  .fast = has_nvfp4,
                  .native = Availability::no("CPUs do not compute with FP4")});
  return list;
}

Availability bf16_prefill(Isa isa) {
  if (isa >= Isa::kAvx512) return onednn_bf16();
  return Availability::no("needs AVX-512, and instruction set " + std::string(to_string(isa)) + " is in use");
}

}  // namespace

const bool fetches_near = is_amd();

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::kScalar: return "scalar";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
    case Isa::kAvx512Vnni: return "avx512_vnni";
  }
  return "unknown";
}

Isa best_isa() {
  if (cpu_features().avx512_vnni) return Isa::kAvx512Vnni;
  if (cpu_features().avx512) return Isa::kAvx512;
  return cpu_features().avx2_fma_f16c ? Isa::kAvx2 : Isa::kScalar;
}

Isa select_isa(const char* forced) {
  const Isa best = best_isa();
  if (forced == nullptr || *forced == '\0') return best;
  for (const Isa isa : kIsas) {
    if (to_string(isa) != forced) continue;
    if (isa <= best) return isa;
    throw Error(ErrorCode::kUnsupported, {.what = "this CPU lacks the instruction set that FORETOKEN_CPU_ISA asks for",
                                          .expected = "at most " + std::string(to_string(best)),
                                          .got = forced});
  }
  throw Error(ErrorCode::kInvalidArgument, {.what = "FORETOKEN_CPU_ISA names no instruction set",
                                            .expected = "scalar, avx2, avx512 or avx512_vnni",
                                            .got = "'" + std::string(forced) + "'"});
}

Capabilities cpu_capabilities(Isa isa, int num_threads) {
  Capabilities caps;
  caps.backend = "cpu";
  caps.device_name = brand_string();
  caps.instruction_set = to_string(isa);
  caps.kind = DeviceKind::kCpu;
  caps.total_memory_bytes = total_memory_bytes();
  caps.num_compute_units = static_cast<uint32_t>(num_threads);
  caps.subgroup_sizes = {isa >= Isa::kAvx512 ? 16U : isa == Isa::kAvx2 ? 8U : 1U};
  caps.activation_dtypes = {DType::kF32};
  caps.weight_formats = weight_formats(isa);
  caps.bf16_prefill = bf16_prefill(isa);
  if (isa >= Isa::kAvx2) caps.features = {"avx2", "fma", "f16c"};
  if (isa >= Isa::kAvx512) {
    caps.features.emplace_back("avx512");
    if (isa >= Isa::kAvx512Vnni) caps.features.emplace_back("avx512-vnni");
    if (cpu_features().avx512_bf16) caps.features.emplace_back("avx512-bf16");
    if (cpu_features().amx_bf16) caps.features.emplace_back("amx-bf16");
  }
  return caps;
}

}  // namespace foretoken::cpu
