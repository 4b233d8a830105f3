// A library's location is tested where there is one to load: tests/integration/install.
#include "core/code_location.h"

#include <gtest/gtest.h>

namespace foretoken {
namespace {

TEST(CodeLocation, StaticCodeLiesInTheProgram) {
  const CodeLocation code = code_location();
  EXPECT_TRUE(code.in_program);
  EXPECT_EQ(code.folder, std::filesystem::canonical("/proc/self/exe").parent_path());
}

}  // namespace
}  // namespace foretoken
