// Differences that must not be there end with status 3. Faults are injected into the tool's code in this process.
#include <gtest/gtest.h>

#include "apps/foretoken/cli.h"
#include "apps/foretoken/exit_status.h"
#include "core/fault.h"

namespace foretoken::test {
namespace {

constexpr const char* kQuestion = "What does \"eccentric\" mean?";

#ifdef FORETOKEN_FAULTS
class ExitStatus : public ::testing::Test {
 protected:
  ~ExitStatus() override { fault::inject(Fault::kNone); }
};

TEST_F(ExitStatus, CompareSeesADroppedToken) {
  EXPECT_EQ(cli::run({"generate", "--chat", kQuestion, "--compare", "--quiet"}), cli::kExitOk);
  fault::inject(Fault::kBonusTokenDropped);
  EXPECT_EQ(cli::run({"generate", "--chat", kQuestion, "--compare", "--quiet"}), cli::kExitDifferent);
}

TEST_F(ExitStatus, SelfCheckSeesAStateThatWasNotCommitted) {
  EXPECT_EQ(cli::run({"generate", "--chat", kQuestion, "--self-check", "--quiet"}), cli::kExitOk);
  fault::inject(Fault::kStateNotCommitted);
  EXPECT_EQ(cli::run({"generate", "--chat", kQuestion, "--self-check", "--quiet"}), cli::kExitDifferent);
}

TEST_F(ExitStatus, BenchDecodeSeesAnotherText) {
  fault::inject(Fault::kStateNotCommitted);
  EXPECT_EQ(cli::run({"bench", "decode", "--prompt-tokens", "20", "--max-tokens", "40", "--repeat", "1", "--quiet"}),
            cli::kExitDifferent);
}
#else
TEST(ExitStatus, DifferencesNeedFaults) { GTEST_SKIP() << "built without FORETOKEN_FAULTS, so there is nothing to differ"; }
#endif

}  // namespace
}  // namespace foretoken::test
