// Prints docs/ops.md.
#include <exception>
#include <iostream>

#include "tests/unit/ops_page/ops_page.h"

int main() {
  try {
    std::cout << foretoken::ops_page(FORETOKEN_SOURCE);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
