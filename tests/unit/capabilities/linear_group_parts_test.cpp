// Groups of projections on devices whose kernels take only some of them together.
#include "backends/linear_group_parts.h"

#include <gtest/gtest.h>

#include "backends/ops.h"
#include "backends/registry.h"

namespace foretoken::test {
namespace {

constexpr int64_t kFeatures = 64;

LinearWeight weight(WeightFormat format) {
  return {.weight = Tensor::shape_only(code_dtype(format), {8, kFeatures}), .scale = {}, .global_scale = {}, .format = format};
}

LinearGroup group(std::initializer_list<WeightFormat> formats) {
  LinearGroup op;
  op.x = Tensor::shape_only(DType::kF32, {1, kFeatures});
  for (size_t i = 0; i < formats.size(); ++i) {
    op.w[i] = weight(formats.begin()[i]);
    op.out[i] = Tensor::shape_only(DType::kF32, {1, 8});
  }
  return op;
}

/// What was launched, as numbers of projections: a kernel for single weights that are not F32, and one for groups of BF16.
struct Launches {
  OpTable table;
  std::vector<size_t> sizes;

  Launches() {
    table.add<Linear>(
        "single", [this](CommandList&, const Linear&) { sizes.push_back(1); },
        [](const Linear& op) {
          return op.w.format == WeightFormat::kF32 ? Availability::no("no F32 here") : Availability::yes();
        },
        [](const Linear&) { return size_t{10}; });
    table.add<LinearGroup>(
        "together", [this](CommandList&, const LinearGroup& op) { sizes.push_back(op.num_projections()); },
        [](const LinearGroup& op) {
          for (size_t i = 0; i < op.num_projections(); ++i) {
            if (op.w[i].format != WeightFormat::kBF16) return Availability::no("BF16 only");
          }
          return Availability::yes();
        },
        [](const LinearGroup& op) { return 100 * op.num_projections(); });
    add_linear_group_parts(table);
  }

  std::vector<size_t> run(const LinearGroup& op) {
    sizes.clear();
    const auto backend = BackendRegistry::instance().open("cpu", {.num_threads = 1});
    const auto stream = backend->create_stream();
    stream->run([&](CommandList& cmd) { table.choose(LinearGroup::schema().name(), &op).launch(cmd, &op); });
    return sizes;
  }
};

constexpr WeightFormat kBF16 = WeightFormat::kBF16;
constexpr WeightFormat kFp8 = WeightFormat::kFp8Row;

TEST(LinearGroupParts, AreTheLongestRunsOfNeighboursThatAKernelTakes) {
  Launches launches;
  EXPECT_EQ(launches.run(group({kBF16, kBF16, kBF16})), std::vector<size_t>({3}));
  EXPECT_EQ(launches.run(group({kFp8, kBF16, kBF16})), std::vector<size_t>({1, 2}));
  EXPECT_EQ(launches.run(group({kFp8, kBF16, kBF16, kBF16})), std::vector<size_t>({1, 3}));
  EXPECT_EQ(launches.run(group({kBF16, kBF16, kFp8, kBF16})), std::vector<size_t>({2, 1, 1}));
  EXPECT_EQ(launches.run(group({kFp8, kFp8})), std::vector<size_t>({1, 1}));
}

TEST(LinearGroupParts, ShareTheLargestWorkspace) {
  const Launches launches;
  EXPECT_EQ(ops::workspace_bytes(launches.table, group({kFp8, kFp8})), 10U);
  EXPECT_EQ(ops::workspace_bytes(launches.table, group({kFp8, kBF16, kBF16})), 200U);
}

TEST(LinearGroupParts, GiveTheReasonOfTheProjectionThatNoKernelTakes) {
  const Launches launches;
  const LinearGroup op = group({kBF16, WeightFormat::kF32});
  const Availability available = launches.table.availability(LinearGroup::schema().name(), &op);
  EXPECT_FALSE(available);
  EXPECT_NE(available.reason().find("no F32 here"), std::string::npos) << available.reason();
}

TEST(LinearGroupParts, AddNothingToATableWithoutLinear) {
  OpTable table;
  add_linear_group_parts(table);
  EXPECT_TRUE(table.find("linear_group").empty());
}

}  // namespace
}  // namespace foretoken::test
