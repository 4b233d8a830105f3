// Finding the bundled checkpoints: the environment decides alone when it is set, the source tree otherwise.
#include "models/bundled.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/error.h"

namespace foretoken {
namespace {

class BundledModel : public testing::Test {
 protected:
  void SetUp() override { unsetenv("FORETOKEN_MODELS"); }
  void TearDown() override { unsetenv("FORETOKEN_MODELS"); }
};

std::string error_of(std::string_view name) {
  try {
    return "found " + bundled_model(name).string();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
}

TEST_F(BundledModel, SourceTreeServesABuildThatIsNotInstalled) {
  const std::filesystem::path data(FORETOKEN_TEST_DATA);
  EXPECT_EQ(bundled_model(), data / "tiny-dense");
  EXPECT_EQ(bundled_model("tiny-moe"), data / "tiny-moe");
}

TEST_F(BundledModel, UnknownNameListsThePlacesSearched) {
  EXPECT_THAT(error_of("tiny-none"), testing::AllOf(testing::HasSubstr("tiny-none"), testing::HasSubstr(FORETOKEN_TEST_DATA)));
  EXPECT_THAT(error_of("golden"), testing::HasSubstr("config.json"));
}

TEST_F(BundledModel, EnvironmentDecidesAlone) {
  setenv("FORETOKEN_MODELS", FORETOKEN_TEST_DATA "/golden", 1);
  EXPECT_THAT(error_of("tiny-dense"), testing::HasSubstr("none in " FORETOKEN_TEST_DATA "/golden"));
  setenv("FORETOKEN_MODELS", FORETOKEN_TEST_DATA "/../data", 1);
  EXPECT_EQ(bundled_model(), std::filesystem::path(FORETOKEN_TEST_DATA "/../data/tiny-dense"));
}

}  // namespace
}  // namespace foretoken
