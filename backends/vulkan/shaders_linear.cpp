// linear, linear_silu_mul, linear_argmax, moe_route, moe_experts_up, moe_experts_down.
#include "backends/gpu/linear_params.h"
#include "backends/gpu/moe_params.h"
#include "backends/vulkan/shader_entry.h"
#include "foretoken_vulkan_shaders.h"

namespace foretoken::vulkan {
namespace {

// moe_group.comp walks through the experts in steps of its threads, so it takes no more than every device has.
constexpr uint32_t kGroupThreads = 128;

template <class Params>
void add(ShaderList& list, const std::string& name, const ShaderCode& code) {
  constexpr bool kIsArgmax = std::is_same_v<Params, gpu::LinearArgmaxParams>;
  list.push_back(shader_entry<Params>(name, code, kIsArgmax ? gpu::kArgmaxThreads : gpu::kLinearThreads));
}

}  // namespace

// Adds the shaders of one weight format; `variant` is r1, r2, ... or any.
#define FORETOKEN_ADD_LINEAR(format, variant)                                                                           \
  add<gpu::LinearParams>(list, "linear_" #format "_" #variant, shaders::linear_##format##_##variant);                   \
  add<gpu::LinearParams>(list, "linear_silu_mul_" #format "_" #variant, shaders::linear_silu_mul_##format##_##variant); \
  add<gpu::LinearArgmaxParams>(list, "linear_argmax_" #format "_" #variant, shaders::linear_argmax_##format##_##variant)
#define FORETOKEN_ADD_EXPERTS(format, variant)                                                                            \
  add<gpu::MoeExpertsParams>(list, "moe_experts_up_" #format "_" #variant, shaders::moe_experts_up_##format##_##variant); \
  add<gpu::MoeExpertsParams>(list, "moe_experts_down_" #format "_" #variant, shaders::moe_experts_down_##format##_##variant)
#define FORETOKEN_ADD_FORMAT(format) \
  FORETOKEN_ADD_LINEAR(format, r1);  \
  FORETOKEN_ADD_LINEAR(format, r2);  \
  FORETOKEN_ADD_LINEAR(format, r4);  \
  FORETOKEN_ADD_LINEAR(format, r8);  \
  FORETOKEN_ADD_LINEAR(format, any); \
  FORETOKEN_ADD_EXPERTS(format, r1); \
  FORETOKEN_ADD_EXPERTS(format, r4); \
  FORETOKEN_ADD_EXPERTS(format, any)

void add_linear_shaders(ShaderList& list) {
  FORETOKEN_ADD_FORMAT(f32);
  FORETOKEN_ADD_FORMAT(bf16);
  FORETOKEN_ADD_FORMAT(fp8_row);
  FORETOKEN_ADD_FORMAT(fp8_block);
  FORETOKEN_ADD_FORMAT(nvfp4);
  list.push_back(shader_entry<gpu::LinearArgmaxCombineParams>("linear_argmax_combine", shaders::linear_argmax_combine,
                                                              gpu::kCombineThreads));
  list.push_back(shader_entry<gpu::MoeTopkParams>("moe_topk", shaders::moe_topk, gpu::kRouteThreads));
  list.push_back(shader_entry<gpu::MoeGroupParams>("moe_group", shaders::moe_group, kGroupThreads));
  list.push_back(shader_entry<gpu::MoeJoinParams>("moe_join", shaders::moe_join, gpu::kJoinThreads));
}

}  // namespace foretoken::vulkan
