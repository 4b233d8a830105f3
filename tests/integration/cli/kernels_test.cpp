// bench kernels: what it prints, and wrong options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/cli/tool.h"

namespace foretoken::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

/// Two passes over the weights on one thread of the CPU.
ToolRun bench_kernels(const Words& more) {
  Words words{"bench", "kernels", "--backend", "cpu", "--threads", "1", "--repeat", "2"};
  words.insert(words.end(), more.begin(), more.end());
  return run_tool(words);
}

TEST(BenchKernels, MeasureEachOperatorFormatAndNumberOfRows) {
  const ToolRun run = bench_kernels({"--op", "linear,linear_argmax,linear_silu_mul,moe", "--format", "f32,bf16", "--rows", "1,3",
                                     "--shape", "64x1024", "--implementation", "exact", "--json"});
  ASSERT_EQ(run.status, 0) << run.err;
  const json report = run.json();
  EXPECT_EQ(report["backend"], "cpu");
  EXPECT_EQ(report["repeat"], 2);
  EXPECT_EQ(report["activations"], "f32");
  EXPECT_GE(report["walked_bytes"].get<uint64_t>(), uint64_t{1} << 20);
  ASSERT_EQ(report["results"].size(), 16U);
  for (const json& result : report["results"]) {
    EXPECT_LE(result["p10_us"].get<double>(), result["median_us"].get<double>()) << result;
    EXPECT_LE(result["median_us"].get<double>(), result["p90_us"].get<double>()) << result;
    EXPECT_GT(result["read_bandwidth_bytes_per_second"].get<double>(), 1e8) << result;
    EXPECT_EQ(result["read_bandwidth_method"], "1 thread");
    EXPECT_EQ(result["implementation"], "exact");
    EXPECT_EQ(result["rounds_activations"], false);
    EXPECT_NEAR(result["bandwidth_share"].get<double>() * result["read_bandwidth_bytes_per_second"].get<double>(),
                result["bytes_per_second"].get<double>(), 1.0)
        << result;
    const double seconds = result["median_us"].get<double>() / 1e6;
    EXPECT_NEAR(result["bytes_per_second"].get<double>() * seconds, result["bytes"].get<double>(), 1.0) << result;
    EXPECT_NEAR(result["rows_per_second"].get<double>() * seconds, result["rows"].get<double>(), 1e-6) << result;
  }
  const json& first = report["results"][0];  // BF16 goes first: the others are compared with it
  EXPECT_EQ(first["op"], "linear");
  EXPECT_EQ(first["shape"], "64x1024");
  EXPECT_EQ(first["format"], "bf16");
  EXPECT_EQ(first["speed_of_bf16"], 1.0);
  EXPECT_EQ(first["bytes"], 64 * 1024 * 2);
  EXPECT_EQ(report["results"][2]["format"], "f32");
  EXPECT_EQ(report["results"][2]["bytes"], 64 * 1024 * 4);
  const json& moe = report["results"][12];
  EXPECT_EQ(moe["op"], "moe");
  EXPECT_EQ(moe["shape"], "64x64x1024, top 8");
  EXPECT_EQ(moe["bytes"], 8 * 3 * 64 * 1024 * 2);
  EXPECT_EQ(report["results"][13]["bytes"], 24 * 3 * 64 * 1024 * 2);
}

TEST(BenchKernels, PrintATableWithEveryStorableFormat) {
  const ToolRun run = bench_kernels({"--op", "linear", "--rows", "1", "--shape", "256x1024"});
  ASSERT_EQ(run.status, 0) << run.err;
  const json devices = run_tool({"devices", "--json"}).json();
  for (const json& format : devices["backends"][0]["devices"][0]["weight_formats"]) {
    const bool is_storable = format["storable"]["available"].get<bool>();
    const bool is_listed = run.out.find(" " + format["format"].get<std::string>() + " ") != std::string::npos;
    EXPECT_EQ(is_listed, is_storable) << format << run.out;
  }
  EXPECT_THAT(run.out, AllOf(HasSubstr("read: the bandwidth just before, GB/s"), HasSubstr("x bf16"), HasSubstr("256x1024")));
}

TEST(BenchKernels, MeasureEveryImplementationTheOneThatIsDispatchedFirst) {
  const ToolRun run = bench_kernels({"--op", "linear", "--format", "bf16", "--rows", "32", "--shape", "64x1024", "--json"});
  ASSERT_EQ(run.status, 0) << run.err;
  const json results = run.json()["results"];
  EXPECT_EQ(results[0]["implementation"], "exact");
  EXPECT_EQ(results[0]["speed_of_bf16"], 1.0);
  for (size_t i = 1; i < results.size(); ++i) {  // which ones depends on the CPU
    EXPECT_EQ(results[i]["rounds_activations"], true) << results[i];
    EXPECT_NEAR(results[i]["speed_of_bf16"].get<double>() * results[i]["median_us"].get<double>(),
                results[0]["median_us"].get<double>(), 1e-3)
        << results[i];
  }
}

TEST(BenchKernels, SayWhyAnImplementationDoesNotRun) {
  const ToolRun run = bench_kernels(
      {"--op", "linear", "--format", "bf16", "--rows", "1", "--shape", "64x64", "--implementation", "gemv", "--json"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.json()["results"][0]["unavailable"], "no implementation called gemv");
  const ToolRun table =
      bench_kernels({"--op", "linear", "--format", "bf16", "--rows", "1", "--shape", "64x64", "--implementation", "onednn"});
  EXPECT_THAT(table.out, HasSubstr(" onednn: ")) << "with one row it never runs";
}

TEST(BenchKernels, RefuseWrongOptions) {
  const std::vector<std::pair<Words, const char*>> cases{
      {{"--op", "linear,gemm"}, "option --op: expected a list of linear, linear_argmax, linear_silu_mul, moe, got 'gemm'"},
      {{"--format", "int4"}, "option --format: expected a list of bf16, f32, fp8-row, fp8-block, nvfp4, got 'int4'"},
      {{"--shape", "17408"}, "option --shape: expected a list like 17408x5120"},
      {{"--shape", "0x16"}, "got '0x16'"},
      {{"--shape", "64x64,"}, "got ''"},
      {{"--shape", "64x2000000"}, "got '64x2000000'"},
      {{"--rows", "0"}, "option --rows"},
      {{"--rows", "513"}, "option --rows"},
      {{"--repeat", "0"}, "option --repeat"},
      {{"--activations", "fp8"}, "option --activations: expected one of auto, f32, bf16, got 'fp8'"},
      {{"--shape", "64x64", "--like", "qwen3.5-0.8b"}, "--shape and --like exclude each other"},
      {{"--op", "moe", "--like", "qwen3.5-0.8b"}, "this model has no experts"},
  };
  for (const auto& [words, message] : cases) {
    const ToolRun run = run_tool([&words] {
      Words all{"bench", "kernels", "--backend", "cpu"};
      all.insert(all.end(), words.begin(), words.end());
      return all;
    }());
    EXPECT_EQ(run.status, 2) << message;
    EXPECT_THAT(run.err, HasSubstr(message));
    EXPECT_EQ(run.out, "");
  }
}

TEST(BenchKernels, RefuseActivationsThatTheDeviceDoesNotTake) {
  const ToolRun run = bench_kernels({"--op", "linear", "--shape", "64x64", "--activations", "bf16"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("expected F32, got BF16"));
}

TEST(BenchKernels, NameTheModelsForAWrongOne) {
  const ToolRun run = bench_kernels({"--like", "qwen9"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("qwen9"), HasSubstr("qwen3.5-0.8b")));
}

}  // namespace
}  // namespace foretoken::test
