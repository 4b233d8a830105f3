// A program outside the source tree that uses the installed library: finds the bundled checkpoint and moves bytes through the
// CPU.
#include <array>
#include <iostream>

#include "backends/registry.h"
#include "core/error.h"
#include "models/bundled.h"

int main() {
  try {
    std::cout << "model: " << foretoken::bundled_model().string() << "\n";
    const auto backend = foretoken::BackendRegistry::instance().open("cpu");
    const foretoken::Buffer buffer = backend->allocate(4);
    const auto stream = backend->create_stream();
    const std::array<std::byte, 4> sent{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
    std::array<std::byte, 4> received{};
    stream->upload(sent, buffer.view());
    stream->download(buffer.view(), received);
    if (received != sent) return 1;
    std::cout << "backend: " << backend->capabilities().backend << "\n";
    return 0;
  } catch (const foretoken::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
