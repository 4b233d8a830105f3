// `foretoken quantize` as a process; the files themselves are checked in tests/integration/quantize.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/cli/tool.h"

namespace foretoken::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(QuantizeTool, WritesACheckpointAndSaysWhatItDid) {
  const TemporaryFolder folder;
  const std::filesystem::path output = folder.path() / "fp8";
  const ToolRun run = run_tool({"quantize", "--model", bundled("tiny-dense").string(), "--output", output.string(), "--format",
                                "fp8-block", "--scope", "mtp", "--scale-dtype", "bf16"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("7 matrices in fp8-block"));
  EXPECT_THAT(run.err, IsEmpty());
  const auto config = nlohmann::json::parse(read_file(output / "config.json"));
  EXPECT_EQ(config.at("quantization_config").at("quant_method"), "fp8");
  const ToolRun inspect = run_tool({"inspect", output.string(), "--json"});
  EXPECT_EQ(inspect.status, 0) << inspect.err;
  EXPECT_THAT(inspect.out, HasSubstr("mtp.layers.0.self_attn.q_proj.weight_scale_inv"));
}

TEST(QuantizeTool, RefusesWhatIsQuantisedAlready) {
  const TemporaryFolder folder;
  const std::filesystem::path first = folder.path() / "first";
  const std::filesystem::path second = folder.path() / "second";
  const std::string model = bundled("tiny-dense").string();
  ASSERT_EQ(run_tool({"quantize", "--model", model, "--output", first.string(), "--format", "nvfp4"}).status, 0);
  const ToolRun again = run_tool({"quantize", "--model", first.string(), "--output", second.string(), "--format", "fp8-row"});
  EXPECT_EQ(again.status, 1);
  EXPECT_THAT(again.err, HasSubstr("quantised already"));
  EXPECT_FALSE(std::filesystem::exists(second));
}

}  // namespace
}  // namespace foretoken::test
