// The device of the tests that move bytes: the one that FORETOKEN_TEST_BACKEND selects, the CPU when it is unset.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "backends/registry.h"

namespace foretoken {

class CacheDevice : public ::testing::Test {
 protected:
  static std::unique_ptr<GpuBackend> open() {
    const char* selector = std::getenv("FORETOKEN_TEST_BACKEND");
    return BackendRegistry::instance().open(selector == nullptr ? "cpu" : selector, {.num_threads = 1});
  }

  void write(const BufferView& view, std::span<const std::byte> bytes) { stream_->upload(bytes, view); }
  std::vector<std::byte> read(const BufferView& view) {
    std::vector<std::byte> bytes(view.bytes);
    stream_->download(view, bytes);
    return bytes;
  }
  std::vector<std::byte> read(std::span<const BufferView> pieces) {
    std::vector<std::byte> all;
    for (const BufferView& piece : pieces) {
      const std::vector<std::byte> bytes = read(piece);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }
  /// Random bits, other ones with each call.
  void scramble(std::span<const BufferView> pieces) {
    for (const BufferView& piece : pieces) {
      std::vector<std::byte> bytes(piece.bytes);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_());
      write(piece, bytes);
    }
  }
  /// Values of -1 .. 1.
  void fill_values(const Tensor& tensor) {
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    std::vector<float> values(static_cast<size_t>(tensor.shape().num_elements()));
    for (float& value : values) value = uniform(random_);
    write(tensor.view(), std::as_bytes(std::span(values)));
  }

  std::unique_ptr<GpuBackend> backend_ = open();
  std::unique_ptr<Stream> stream_ = backend_->create_stream();
  std::mt19937 random_{11};
};

}  // namespace foretoken
