#include "backends/vulkan/pipeline_cache.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "backends/vulkan/vulkan_error.h"
#include "core/log.h"

namespace foretoken::vulkan {
namespace {

namespace fs = std::filesystem;

std::string hex(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

/// A file that another process reads or writes at the same time is never seen half written.
void write_atomically(const fs::path& file, std::span<const std::byte> bytes) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  const fs::path draft = file.string() + "." + std::to_string(getpid());
  {
    std::ofstream out(draft, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) {
      log().info("pipelines are not kept: cannot write {}", draft.string());
      fs::remove(draft, error);
      return;
    }
  }
  fs::rename(draft, file, error);
  if (error) {
    log().info("pipelines are not kept: {}: {}", file.string(), error.message());
    fs::remove(draft, error);
  }
}

}  // namespace

fs::path pipeline_cache_file(const VkPhysicalDeviceProperties& properties) {
  const char* wanted = std::getenv("FORETOKEN_VULKAN_CACHE");
  if (wanted != nullptr && std::string_view(wanted) == "0") return {};
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (xdg != nullptr && fs::path(xdg).is_absolute()) {
    folder = xdg;
  } else if (home != nullptr && fs::path(home).is_absolute()) {
    folder = fs::path(home) / ".cache";
  } else {
    return {};
  }
  return folder / "foretoken" / ("vulkan-" + hex(properties.pipelineCacheUUID) + ".pipelines");
}

std::vector<std::byte> read_pipeline_cache(const fs::path& file, const VkPhysicalDeviceProperties& properties) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return {};
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  VkPipelineCacheHeaderVersionOne header{};
  if (bytes.size() >= sizeof(header)) std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.headerSize < sizeof(header) || header.headerVersion != VK_PIPELINE_CACHE_HEADER_VERSION_ONE ||
      header.vendorID != properties.vendorID || header.deviceID != properties.deviceID ||
      std::memcmp(header.pipelineCacheUUID, properties.pipelineCacheUUID, VK_UUID_SIZE) != 0) {
    log().warn("{} is no pipeline cache of {}: ignored", file.string(), properties.deviceName);
    return {};
  }
  return bytes;
}

PipelineCache::PipelineCache(const Device& device) : device_(device), file_(pipeline_cache_file(device.physical().properties)) {
  const std::vector<std::byte> loaded =
      file_.empty() ? std::vector<std::byte>{} : read_pipeline_cache(file_, device.physical().properties);
  loaded_bytes_ = loaded.size();
  VkPipelineCacheCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  info.initialDataSize = loaded.size();
  info.pInitialData = loaded.data();
  VkPipelineCache cache = VK_NULL_HANDLE;
  check(vkCreatePipelineCache(device.get(), &info, nullptr, &cache), "vkCreatePipelineCache");
  cache_ = {device.get(), cache};
}

PipelineCache::~PipelineCache() {
  if (file_.empty()) return;
  try {
    size_t count = 0;
    check(vkGetPipelineCacheData(device_.get(), cache_.get(), &count, nullptr), "vkGetPipelineCacheData");
    if (count <= loaded_bytes_) return;
    std::vector<std::byte> bytes(count);
    check(vkGetPipelineCacheData(device_.get(), cache_.get(), &count, bytes.data()), "vkGetPipelineCacheData");
    write_atomically(file_, std::span(bytes).first(count));
  } catch (const std::exception& error) {
    log().info("pipelines are not kept: {}", error.what());
  }
}

}  // namespace foretoken::vulkan
