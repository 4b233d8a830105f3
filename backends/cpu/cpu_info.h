// What this CPU has: instruction sets, name, and the capabilities that follow from them.
#pragma once

#include <string>
#include <string_view>

#include "backends/capabilities.h"
#include "backends/cpu/kernel_entry.h"

namespace foretoken::cpu {

/// What instruction sets are made of and what comes beside them, each usable: the CPU has it and the system saves its registers.
struct CpuFeatures {
  bool avx2_fma_f16c = false;
  bool avx512 = false;       // F, BW, DQ and VL
  bool avx512_vnni = false;  // VNNI and VBMI
  bool avx512_bf16 = false;
  bool amx_bf16 = false;  // tiles too, with the kernel's permission to use them
};

/// Looks once, at the first call; asks the kernel for permission to use AMX tiles where the CPU has them. Thread-safe.
[[nodiscard]] const CpuFeatures& cpu_features();

/// "scalar", "avx2", "avx512", "avx512_vnni".
[[nodiscard]] std::string_view to_string(Isa isa);

/// The highest set that kernels are compiled for and this machine can run.
[[nodiscard]] Isa best_isa();

/// `best_isa()`, or the lower one that `forced` (the value of FORETOKEN_CPU_ISA, null when unset) names. Throws InvalidArgument
/// for an unknown name and Unsupported for a set that this machine lacks.
[[nodiscard]] Isa select_isa(const char* forced);

/// Why the scalar kernels have no NVFP4.
inline constexpr std::string_view kNvfp4Needs = "needs AVX2, and the scalar instruction set is in use";

/// Capabilities of the CPU as a device whose pool has `num_threads` threads and whose kernels are those of `isa`.
[[nodiscard]] Capabilities cpu_capabilities(Isa isa, int num_threads);

}  // namespace foretoken::cpu
