#include "backends/vulkan/vulkan_instance.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "backends/vulkan/vulkan_error.h"
#include "backends/vulkan/vulkan_loader.h"
#include "core/error.h"
#include "core/log.h"

namespace foretoken::vulkan {
namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";

bool validation_wanted() {
  const char* value = std::getenv("FORETOKEN_VULKAN_VALIDATION");
  return value != nullptr && std::string_view(value) == "1";
}

bool has_validation_layer() {
  uint32_t count = 0;
  check(vkEnumerateInstanceLayerProperties(&count, nullptr), "vkEnumerateInstanceLayerProperties");
  std::vector<VkLayerProperties> layers(count);
  const VkResult result = vkEnumerateInstanceLayerProperties(&count, layers.data());
  if (result != VK_INCOMPLETE) check(result, "vkEnumerateInstanceLayerProperties");
  return std::ranges::any_of(layers, [](const auto& layer) { return std::strcmp(layer.layerName, kValidationLayer) == 0; });
}

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                          const VkDebugUtilsMessengerCallbackDataEXT* data, void* instance) {
  static_cast<const Instance*>(instance)->complain(data->pMessage);
  return VK_FALSE;
}

/// A function of an extension: not in the table that all instances share.
template <class Function>
Function function(VkInstance instance, const char* name) {
  return reinterpret_cast<Function>(vkGetInstanceProcAddr(instance, name));
}

[[noreturn]] void refuse(const std::string& reason) { throw Error(ErrorCode::kUnsupported, reason); }

}  // namespace

Instance::Instance() {
  load_loader();
  if (volkGetInstanceVersion() < VK_API_VERSION_1_2) refuse("the Vulkan loader is older than 1.2");
  const bool validate = validation_wanted();
  if (validate && !has_validation_layer()) {
    refuse(std::string("FORETOKEN_VULKAN_VALIDATION is 1, but the layer ") + kValidationLayer + " is not installed");
  }
  const VkApplicationInfo application{.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                      .pNext = nullptr,
                                      .pApplicationName = "foretoken",
                                      .applicationVersion = 0,
                                      .pEngineName = "foretoken",
                                      .engineVersion = 0,
                                      .apiVersion = VK_API_VERSION_1_2};
  const char* extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  const VkInstanceCreateInfo info{.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                  .pNext = nullptr,
                                  .flags = 0,
                                  .pApplicationInfo = &application,
                                  .enabledLayerCount = validate ? 1U : 0U,
                                  .ppEnabledLayerNames = &kValidationLayer,
                                  .enabledExtensionCount = validate ? 1U : 0U,
                                  .ppEnabledExtensionNames = &extension};
  VkInstance instance = VK_NULL_HANDLE;
  if (const VkResult result = vkCreateInstance(&info, nullptr, &instance); result != VK_SUCCESS) {
    refuse("no Vulkan driver can be used: vkCreateInstance failed: " + describe(result));
  }
  load_functions(vkGetInstanceProcAddr, instance);
  instance_.reset(instance);
  if (validate) make_messenger();
}

Instance::~Instance() {
  if (messenger_ == VK_NULL_HANDLE) return;
  const auto destroy = function<PFN_vkDestroyDebugUtilsMessengerEXT>(instance_.get(), "vkDestroyDebugUtilsMessengerEXT");
  destroy(instance_.get(), messenger_, nullptr);
}

const Instance& Instance::of_process() {
  static const Instance* const instance = new Instance();
  return *instance;
}

std::vector<VkPhysicalDevice> Instance::physical_devices() const {
  uint32_t count = 0;
  check(vkEnumeratePhysicalDevices(instance_.get(), &count, nullptr), "vkEnumeratePhysicalDevices");
  std::vector<VkPhysicalDevice> devices(count);
  check(vkEnumeratePhysicalDevices(instance_.get(), &count, devices.data()), "vkEnumeratePhysicalDevices");
  devices.resize(count);
  return devices;
}

void Instance::check_validation() const {
  const std::lock_guard lock(mutex_);
  if (complaint_.empty()) return;
  throw Error(ErrorCode::kInternalError, "Vulkan validation: " + std::exchange(complaint_, {}));
}

void Instance::complain(const char* message) const noexcept {
  try {
    const std::lock_guard lock(mutex_);
    log().error("Vulkan validation: {}", message);
    if (complaint_.empty()) complaint_ = message;
  } catch (...) {  // NOLINT(bugprone-empty-catch): nothing may leave a callback
  }
}

void Instance::make_messenger() {
  const VkDebugUtilsMessengerCreateInfoEXT info{
      .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
      .pNext = nullptr,
      .flags = 0,
      .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
      .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
      .pfnUserCallback = on_message,
      .pUserData = this};
  const auto create = function<PFN_vkCreateDebugUtilsMessengerEXT>(instance_.get(), "vkCreateDebugUtilsMessengerEXT");
  check(create(instance_.get(), &info, nullptr, &messenger_), "vkCreateDebugUtilsMessengerEXT");
}

}  // namespace foretoken::vulkan
