// Where compiled pipelines are kept, and which files are taken back. No test here needs a device.
#include "backends/vulkan/pipeline_cache.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

namespace foretoken::vulkan {
namespace {

namespace fs = std::filesystem;

class PipelineCacheFile : public testing::Test {
 protected:
  PipelineCacheFile() {
    properties_.vendorID = 7;
    properties_.deviceID = 9;
    for (size_t i = 0; i < VK_UUID_SIZE; ++i) properties_.pipelineCacheUUID[i] = static_cast<uint8_t>(16 * i);
    folder_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::create_directories(folder_);
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
    unsetenv("FORETOKEN_VULKAN_CACHE");
  }
  ~PipelineCacheFile() override { fs::remove_all(folder_); }

  /// A header as a driver writes it, and what follows.
  [[nodiscard]] std::string content(const std::string& rest) const {
    VkPipelineCacheHeaderVersionOne header{};
    header.headerSize = sizeof(header);
    header.headerVersion = VK_PIPELINE_CACHE_HEADER_VERSION_ONE;
    header.vendorID = properties_.vendorID;
    header.deviceID = properties_.deviceID;
    std::memcpy(header.pipelineCacheUUID, properties_.pipelineCacheUUID, VK_UUID_SIZE);
    return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + rest;
  }
  [[nodiscard]] std::vector<std::byte> read_back(const std::string& text) const {
    const fs::path file = folder_ / "pipelines";
    std::ofstream(file, std::ios::binary) << text;
    return read_pipeline_cache(file, properties_);
  }

  VkPhysicalDeviceProperties properties_{};
  fs::path folder_;
};

TEST_F(PipelineCacheFile, LiesInTheCacheFolderOfTheUser) {
  EXPECT_EQ(pipeline_cache_file(properties_), folder_ / "foretoken" / "vulkan-00102030405060708090a0b0c0d0e0f0.pipelines");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/home/someone", 1);
  EXPECT_EQ(pipeline_cache_file(properties_).parent_path(), "/home/someone/.cache/foretoken");
  setenv("FORETOKEN_VULKAN_CACHE", "0", 1);
  EXPECT_TRUE(pipeline_cache_file(properties_).empty());
  unsetenv("FORETOKEN_VULKAN_CACHE");
  unsetenv("HOME");
  EXPECT_TRUE(pipeline_cache_file(properties_).empty());
}

TEST_F(PipelineCacheFile, IsTakenWhenItIsOfThisDevice) { EXPECT_EQ(read_back(content("pipelines")).size(), 32U + 9U); }

TEST_F(PipelineCacheFile, IsIgnoredWhenItIsNot) {
  EXPECT_TRUE(read_pipeline_cache(folder_ / "absent", properties_).empty());
  EXPECT_TRUE(read_back("").empty());
  EXPECT_TRUE(read_back("short").empty());
  EXPECT_TRUE(read_back(std::string(4096, '\0')).empty());
  EXPECT_TRUE(read_back(content("pipelines").substr(1)).empty());
  const std::string good = content("pipelines");
  for (const size_t byte : {0U, 4U, 8U, 12U, 31U}) {  // each field of the header
    std::string bad = good;
    bad[byte] = static_cast<char>(bad[byte] ^ 0x55);
    if (byte == 0) bad[byte] = 8;
    EXPECT_TRUE(read_back(bad).empty()) << byte;
  }
}

}  // namespace
}  // namespace foretoken::vulkan
