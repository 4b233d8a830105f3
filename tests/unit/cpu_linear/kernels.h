// Runs CPU kernels of every instruction set that this machine has, without a backend.
#pragma once

#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/cpu_info.h"
#include "backends/cpu/kernels/kernels.h"
#include "core/dtype.h"

namespace foretoken::cpu {

/// The instruction sets of this machine, worst first.
inline std::vector<Isa> isas_of_this_machine() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni}) {
    if (isa <= best_isa()) isas.push_back(isa);
  }
  return isas;
}

inline std::string isa_name(Isa isa) { return std::string(to_string(isa)); }

/// Runs items [0, items) of a kernel, cut into `pieces` ranges that run last first.
template <class Params>
void run_kernel(Isa isa, std::string_view name, const Params& params, uint32_t items, uint32_t pieces = 1) {
  for (const KernelEntry& entry : kernels_for(isa)) {
    if (entry.name != name) continue;
    if (entry.params_bytes != sizeof(Params)) throw std::runtime_error("wrong parameters for " + std::string(name));
    for (uint32_t piece = pieces; piece > 0; --piece) {
      const uint64_t total = items;
      entry.function(&params, static_cast<uint32_t>(total * (piece - 1) / pieces), static_cast<uint32_t>(total * piece / pieces));
    }
    return;
  }
  throw std::runtime_error("no kernel " + std::string(name));
}

template <class T>
uint64_t address_of(const std::vector<T>& data) {
  return reinterpret_cast<uint64_t>(data.data());
}

inline std::vector<float> random_floats(size_t count, uint64_t seed, float sigma = 1.0F) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal(0.0F, sigma);
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

/// The same values as BF16 bits; `values` are rounded to what the bits say.
inline std::vector<uint16_t> round_to_bf16(std::vector<float>& values) {
  std::vector<uint16_t> bits(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    bits[i] = float_to_bf16(values[i]);
    values[i] = bf16_to_float(bits[i]);
  }
  return bits;
}

}  // namespace foretoken::cpu
