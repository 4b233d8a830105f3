// Every operator on the CPU, at every instruction-set level of this machine, with several numbers of threads; and through a
// device that runs late, on another thread, with memory that the host cannot touch.
#include <gtest/gtest.h>

#include <cstdlib>
#include <tuple>

#include "backends/conformance/conformance.h"
#include "backends/registry.h"
#include "core/error.h"
#include "tests/support/late_device.h"

namespace foretoken {
namespace {

void expect_conformance(GpuBackend& backend, const ConformanceOptions& options) {
  const ConformanceReport report = run_conformance(backend, options);
  EXPECT_TRUE(report.passed()) << report.to_table();
  EXPECT_GT(report.count(ConformanceOutcome::kPassed), 0U) << report.to_table();
}

using OperatorAndIsa = std::tuple<std::string, const char*>;

class CpuOperator : public testing::TestWithParam<OperatorAndIsa> {
 protected:
  void SetUp() override { setenv("FORETOKEN_CPU_ISA", std::get<1>(GetParam()), 1); }
  void TearDown() override { unsetenv("FORETOKEN_CPU_ISA"); }
};

TEST_P(CpuOperator, Conforms) {
  for (const int num_threads : {1, 2, 3}) {
    std::unique_ptr<GpuBackend> backend;
    try {
      backend = BackendRegistry::instance().open("cpu", {.num_threads = num_threads});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      GTEST_SKIP() << error.what();
    }
    SCOPED_TRACE("threads: " + std::to_string(num_threads));
    ConformanceOptions options;
    options.op = std::get<0>(GetParam());
    options.every_nth_case = num_threads == 2 ? 1 : 3;  // the full list once, for time
    expect_conformance(*backend, options);
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, CpuOperator,
                         testing::Combine(testing::ValuesIn(conformance_ops()),
                                          testing::Values("scalar", "avx2", "avx512", "avx512_vnni")),
                         [](const auto& param) { return std::get<0>(param.param) + "_" + std::get<1>(param.param); });

class LateOperator : public testing::TestWithParam<std::string> {};

TEST_P(LateOperator, Conforms) {
  const auto backend = test::make_late_backend({.num_threads = 2});
  ConformanceOptions options;
  options.op = GetParam();
  options.every_nth_case = 4;
  options.expectations = expectations_for("cpu");  // whose kernels the device runs
  expect_conformance(*backend, options);
}

INSTANTIATE_TEST_SUITE_P(Late, LateOperator, testing::ValuesIn(conformance_ops()), [](const auto& param) { return param.param; });

/// Every operator on the device that FORETOKEN_TEST_BACKEND selects; no test where it is unset.
class SelectedOperator : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SelectedOperator);

TEST_P(SelectedOperator, Conforms) {
  const auto backend = BackendRegistry::instance().open(std::getenv("FORETOKEN_TEST_BACKEND"));
  expect_conformance(*backend, {.op = GetParam()});
}

std::vector<std::string> selected_ops() {
  return std::getenv("FORETOKEN_TEST_BACKEND") == nullptr ? std::vector<std::string>{} : conformance_ops();
}

INSTANTIATE_TEST_SUITE_P(Selected, SelectedOperator, testing::ValuesIn(selected_ops()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace foretoken
