#include "backends/cpu/kernels/kernels.h"

#include "backends/cpu/cpu_info.h"
#include "backends/cpu/kernels/linear_amx.h"
#include "backends/cpu/kernels/prefill_amx.h"
#include "backends/cpu/onednn.h"

namespace foretoken::cpu {
namespace {

#define FORETOKEN_ADD_WEIGHT_KERNELS(isa) \
  isa::add_linear_kernels(list);          \
  isa::add_moe_kernels(list)

#define FORETOKEN_ADD_OTHER_KERNELS(isa) \
  isa::add_sampling_kernels(list);       \
  isa::add_sample_kernels(list);         \
  isa::add_process_logits_kernels(list); \
  isa::add_norm_kernels(list);           \
  isa::add_attention_kernels(list);      \
  isa::add_delta_net_kernels(list);      \
  isa::add_quantize_kernels(list)

}  // namespace

std::vector<KernelEntry> kernels_for(Isa isa) {
  std::vector<KernelEntry> list;
  switch (isa) {
    case Isa::kScalar:
      FORETOKEN_ADD_WEIGHT_KERNELS(scalar);
      FORETOKEN_ADD_OTHER_KERNELS(scalar);
      break;
    case Isa::kAvx2:
      FORETOKEN_ADD_WEIGHT_KERNELS(avx2);
      FORETOKEN_ADD_OTHER_KERNELS(avx2);
      break;
    case Isa::kAvx512:
    case Isa::kAvx512Vnni:
      if (isa == Isa::kAvx512) {
        FORETOKEN_ADD_WEIGHT_KERNELS(avx512);
      } else {
        FORETOKEN_ADD_WEIGHT_KERNELS(avx512_vnni);
      }
      FORETOKEN_ADD_OTHER_KERNELS(avx512);
      append(list, onednn_kernels());
      if (cpu_features().amx_bf16) {
        avx512::add_amx_kernels(list);
        avx512::add_amx_linear_kernels(list);
        avx512::add_amx_delta_kernels(list);
        avx512::add_amx_attention_kernels(list);
      }
      break;
  }
  return list;
}

}  // namespace foretoken::cpu
