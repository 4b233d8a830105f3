// Tests that run once per instruction set.
#pragma once

#include <gtest/gtest.h>

#include <bit>

#include "tests/unit/cpu_kernels/direct_list.h"

namespace foretoken::cpu {

class IsaTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!runs_here(GetParam())) GTEST_SKIP() << "this machine lacks the instruction set";
  }
};

inline std::string isa_name(const testing::TestParamInfo<Isa>& info) { return std::string(to_string(info.param)); }

/// Equal to the bit; says where the first difference is.
inline testing::AssertionResult same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << a.size() << " against " << b.size() << " values";
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      return testing::AssertionFailure() << "element " << i << ": " << a[i] << " against " << b[i];
    }
  }
  return testing::AssertionSuccess();
}

/// max |a - b| / max |b|
inline double relative_error(const std::vector<float>& a, const std::vector<double>& b) {
  double difference = 0.0, largest = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return difference / largest;
}

#define FORETOKEN_ISA_TESTS(suite) \
  INSTANTIATE_TEST_SUITE_P(Isas, suite, testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512), isa_name)

}  // namespace foretoken::cpu
