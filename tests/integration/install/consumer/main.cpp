// A program outside the source tree that uses the installed library.
#include <iostream>

#include "core/error.h"
#include "models/bundled.h"

int main() {
  try {
    std::cout << "model: " << foretoken::bundled_model().string() << "\n";
    return 0;
  } catch (const foretoken::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
