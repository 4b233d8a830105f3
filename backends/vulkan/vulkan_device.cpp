#include "backends/vulkan/vulkan_device.h"

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "backends/vulkan/vulkan_error.h"
#include "core/error.h"
#include "core/log.h"

namespace foretoken::vulkan {
namespace {

constexpr uint64_t kWaitNanoseconds = 1'000'000'000;
constexpr uint64_t kTimeoutSeconds = 60;

/// FORETOKEN_VULKAN_TIMEOUT in seconds, 0: wait for ever. Without it, a GPU may take a minute for one piece of work, and a CPU as
/// long as it wants.
uint64_t timeout_seconds(const PhysicalDevice& physical) {
  const char* value = std::getenv("FORETOKEN_VULKAN_TIMEOUT");
  if (value == nullptr || *value == '\0') {
    return physical.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? 0 : kTimeoutSeconds;
  }
  uint64_t seconds = 0;
  const std::string_view text(value);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error == std::errc() && end == text.data() + text.size()) return seconds;
  throw Error(ErrorCode::kInvalidArgument,
              {.what = "FORETOKEN_VULKAN_TIMEOUT", .where = "", .expected = "seconds, 0 for none", .got = std::string(text)});
}

}  // namespace

/// Holds the queue, which one thread at a time may use.
class Device::QueueLock {
 public:
  explicit QueueLock(const Device& device) : lock_(device.queue_mutex_), unlock_(device.unlock_queue_) {
    if (device.lock_queue_) device.lock_queue_();
  }
  ~QueueLock() {
    if (unlock_) unlock_();
  }
  QueueLock(const QueueLock&) = delete;
  QueueLock& operator=(const QueueLock&) = delete;

 private:
  std::lock_guard<std::mutex> lock_;
  const std::function<void()>& unlock_;
};

Device::Device(const Instance& instance, PhysicalDevice physical)
    : instance_(&instance), physical_(std::move(physical)), timeout_seconds_(timeout_seconds(physical_)) {
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroup{};
  subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
  subgroup.subgroupSizeControl = limits().chooses_subgroup_size ? VK_TRUE : VK_FALSE;
  subgroup.computeFullSubgroups = limits().full_subgroups ? VK_TRUE : VK_FALSE;
  const bool controls_subgroups = limits().chooses_subgroup_size || limits().full_subgroups;
  VkPhysicalDeviceVulkan12Features v12{};
  v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  v12.pNext = controls_subgroups ? &subgroup : nullptr;
  v12.bufferDeviceAddress = VK_TRUE;
  v12.timelineSemaphore = VK_TRUE;
  v12.scalarBlockLayout = VK_TRUE;
  v12.storageBuffer8BitAccess = VK_TRUE;
  VkPhysicalDeviceVulkan11Features v11{};
  v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  v11.pNext = &v12;
  v11.storageBuffer16BitAccess = VK_TRUE;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &v11;
  features.features.shaderInt64 = VK_TRUE;

  std::vector<const char*> extensions;
  if (controls_subgroups) extensions.push_back(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
  if (physical_.has_memory_budget) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  const float priority = 1.0F;
  VkDeviceQueueCreateInfo queue{};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueFamilyIndex = physical_.queue_family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &features;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  check(vkCreateDevice(physical_.handle, &info, nullptr, &device_), "vkCreateDevice", physical_.properties.deviceName);
  vkGetDeviceQueue(device_, physical_.queue_family, 0, &queue_);
  idle_ = std::make_unique<Timeline>(*this);
}

Device::Device(PhysicalDevice physical, const VulkanDevice& caller)
    : physical_(std::move(physical)),
      device_(static_cast<VkDevice>(caller.device)),
      queue_(static_cast<VkQueue>(caller.queue)),
      lock_queue_(caller.lock_queue),
      unlock_queue_(caller.unlock_queue),
      timeout_seconds_(timeout_seconds(physical_)) {
  idle_ = std::make_unique<Timeline>(*this);
}

Device::~Device() {
  idle_.reset();
  if (instance_ != nullptr && !is_hung_) vkDestroyDevice(device_, nullptr);  // which would wait
}

void Device::submit(const VkSubmitInfo& info, std::string_view detail) const {
  const QueueLock lock(*this);
  check(vkQueueSubmit(queue_, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit", detail);
}

void Device::check_alive(std::string_view detail) const {
  VkSubmitInfo nothing{};
  nothing.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  submit(nothing, detail);
}

void Device::check_progress(uint64_t seconds, std::string_view detail) const {
  if (timeout_seconds_ == 0 || seconds < timeout_seconds_) return;
  is_hung_ = true;
  throw Error(ErrorCode::kDeviceError, "vkWaitSemaphores failed: nothing has finished within " +
                                           std::to_string(timeout_seconds_) + " s (FORETOKEN_VULKAN_TIMEOUT); " +
                                           std::string(detail));
}

void Device::check_validation() const {
  if (instance_ != nullptr) instance_->check_validation();
}

void Device::wait_idle() const noexcept {
  try {
    uint64_t value = 0;
    {
      const QueueLock lock(*this);
      value = num_waits_ + 1;
      const VkSemaphore semaphore = idle_->semaphore();
      VkTimelineSemaphoreSubmitInfo timeline{};
      timeline.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
      timeline.signalSemaphoreValueCount = 1;
      timeline.pSignalSemaphoreValues = &value;
      VkSubmitInfo info{};
      info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
      info.pNext = &timeline;
      info.signalSemaphoreCount = 1;
      info.pSignalSemaphores = &semaphore;
      check(vkQueueSubmit(queue_, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit", "what is about to be freed");
      num_waits_ = value;
    }
    idle_->wait(value, "what is about to be freed");
  } catch (const std::exception& error) {
    log().warn("{}", error.what());
  }
}

Owned<VkCommandPool> Device::make_command_pool() const {
  VkCommandPoolCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  info.queueFamilyIndex = physical_.queue_family;
  VkCommandPool pool = VK_NULL_HANDLE;
  check(vkCreateCommandPool(device_, &info, nullptr, &pool), "vkCreateCommandPool");
  return {device_, pool};
}

VkCommandBuffer Device::make_command_buffer(VkCommandPool pool) const {
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = pool;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  VkCommandBuffer buffer = VK_NULL_HANDLE;
  check(vkAllocateCommandBuffers(device_, &info, &buffer), "vkAllocateCommandBuffers");
  return buffer;
}

Timeline::Timeline(const Device& device) : device_(&device) {
  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  info.pNext = &type;
  VkSemaphore semaphore = VK_NULL_HANDLE;
  check(vkCreateSemaphore(device.get(), &info, nullptr, &semaphore), "vkCreateSemaphore");
  semaphore_ = {device.get(), semaphore};
}

bool Timeline::reached(uint64_t value) const {
  uint64_t now = 0;
  check(vkGetSemaphoreCounterValue(device_->get(), semaphore_.get(), &now), "vkGetSemaphoreCounterValue");
  return now >= value;
}

void Timeline::wait(uint64_t value, std::string_view detail) const {
  const VkSemaphore semaphore = semaphore_.get();
  VkSemaphoreWaitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  info.semaphoreCount = 1;
  info.pSemaphores = &semaphore;
  info.pValues = &value;
  if (device_->is_hung()) throw Error(ErrorCode::kDeviceError, "the device has hung; " + std::string(detail));
  // Drivers need not wake who waits for a device that was lost.
  VkResult result = vkWaitSemaphores(device_->get(), &info, kWaitNanoseconds);
  uint64_t seen = 0;
  for (uint64_t seconds = 1; result == VK_TIMEOUT; ++seconds) {
    device_->check_alive(detail);
    uint64_t now = 0;
    check(vkGetSemaphoreCounterValue(device_->get(), semaphore, &now), "vkGetSemaphoreCounterValue", detail);
    if (now != seen) seconds = 0;
    seen = now;
    device_->check_progress(seconds, detail);
    result = vkWaitSemaphores(device_->get(), &info, kWaitNanoseconds);
  }
  check(result, "vkWaitSemaphores", detail);
}

}  // namespace foretoken::vulkan
