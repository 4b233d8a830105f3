// Holds the source tree to its include rules, and shows that each rule bites.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "include_rules.h"

namespace {

using foretoken::include_rules::check;
using foretoken::include_rules::Violation;

TEST(SourceTree, HoldsToTheRules) {
  const std::filesystem::path root(FORETOKEN_SOURCE_DIR);
  int num_files = 0;
  for (const char* folder : {"core", "backends", "cache", "layers", "models", "speculative", "apps", "tests"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file() || !foretoken::include_rules::is_source(entry.path())) continue;
      ++num_files;
      std::ifstream in(entry.path());
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      for (const Violation& violation : check(entry.path().lexically_relative(root).generic_string(), text)) {
        ADD_FAILURE() << violation.file << ":" << violation.line << ": " << violation.message;
      }
    }
  }
  EXPECT_GT(num_files, 20) << "the scan of " << root << " found too little to mean anything";
}

struct Planted {
  const char* file;
  const char* text;
};

class PlantedViolation : public testing::TestWithParam<Planted> {};

TEST_P(PlantedViolation, IsCaught) {
  const std::vector<Violation> violations = check(GetParam().file, std::string("#pragma once\n") + GetParam().text + "\n");
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_EQ(violations[0].file, GetParam().file);
  EXPECT_EQ(violations[0].line, 2);
}

INSTANTIATE_TEST_SUITE_P(Rules, PlantedViolation,
                         testing::Values(Planted{"core/tensor.h", "#include \"backends/buffer.h\""},
                                         Planted{"core/ops/rms_norm.h", "#include <nlohmann/json.hpp>"},
                                         Planted{"core/log.cpp", "#include \"../cache/block_pool.h\""},
                                         Planted{"backends/backend.h", "#include \"layers/mlp.h\""},
                                         Planted{"backends/backend.h", "#include \"backends/cpu/cpu_backend.h\""},
                                         Planted{"backends/ops.cpp", "#include \"cpu/thread_pool.h\""},
                                         Planted{"backends/ops.h", "class CudaBackend;"},
                                         Planted{"backends/registry.cpp", "#include <cuda_runtime.h>"},
                                         Planted{"backends/cpu/op_table.cpp", "#include \"cache/block_pool.h\""},
                                         Planted{"backends/cpu/op_table.cpp", "#include \"../null/null_backend.h\""},
                                         Planted{"backends/hip/op_table.cpp", "#  include <vulkan/vulkan.h>"},
                                         Planted{"backends/vulkan/device.cpp", "#include <oneapi/dnnl/dnnl.hpp>"},
                                         Planted{"backends/cpu/reference/linear.cpp", "#include \"backends/cpu/cpu_ops.h\""},
                                         Planted{"models/target_model.cpp", "#include \"backends/cpu/reference/linear.h\""},
                                         Planted{"backends/conformance/op_run.cpp", "#include \"backends/cpu/cpu_backend.h\""},
                                         Planted{"cache/block_pool.h", "#include \"models/model_config.h\""},
                                         Planted{"cache/block_pool.cpp", "#include \"speculative/verifier.h\""},
                                         Planted{"layers/linear.cpp", "#include <dnnl.hpp>"},
                                         Planted{"layers/attention.h", "#include \"cache/paged_kv_cache.h\""},
                                         Planted{"layers/linear.cpp", "auto backend = cpu::open(0);"},
                                         Planted{"models/qwen3_5.h", "#include \"cache/block_table.h\""},
                                         Planted{"models/qwen3_5.cpp", "#include \"speculative/mtp_head.h\""},
                                         Planted{"speculative/mtp_head.cpp", "#include \"apps/foretoken/options.h\""},
                                         Planted{"speculative/mtp_head.cpp", "#include <volk.h>"},
                                         Planted{"apps/foretoken/main.cpp", "#include \"backends/cpu/cpu_backend.h\""},
                                         Planted{"apps/foretoken/main.cpp", "auto p = make_cpu_provider();"},
                                         Planted{"tests/unit/layers/mlp_test.cpp", "#include <hip/hip_runtime.h>"}));

TEST(Rules, LeaveAloneWhatIsRight) {
  EXPECT_TRUE(check("backends/registry.cpp", "#include \"backends/cpu/cpu_backend.h\"\nauto p = make_cpu_provider();").empty());
  EXPECT_TRUE(check("backends/cpu/gemm.cpp", "#include <oneapi/dnnl/dnnl.hpp>\n#include \"thread_pool.h\"").empty());
  EXPECT_TRUE(
      check("backends/cuda/kernels/rms_norm.cu", "#include <cuda_bf16.h>\n#include \"backends/gpu/rms_norm.inl\"").empty());
  EXPECT_TRUE(
      check("core/log.cpp", "#include \"core/log.h\"\n#include <spdlog/sinks/stdout_sinks.h>\n#include <vector>").empty());
  EXPECT_TRUE(check("apps/foretoken/main.cpp", "// unlike CudaBackend\nconst char* help = \"cuda:0 or CpuBackend\";").empty());
  EXPECT_TRUE(check("apps/foretoken/conformance.cpp", "#include \"backends/cpu/reference/linear.h\"").empty());
  EXPECT_TRUE(check("layers/a.cpp", "/* #include \"cache/b.h\"\n#include <volk.h> */ int x = 1'000;").empty());
  EXPECT_TRUE(check("speculative/a.cpp", "#include \"cache/b.h\"\n#include \"layers/c.h\"\n#include \"models/d.h\"").empty());
  EXPECT_TRUE(check("tests/unit/cpu/gemm_test.cpp", "#include \"backends/cpu/gemm.h\"\n#include <dnnl.hpp>").empty());
}

}  // namespace
