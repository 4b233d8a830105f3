// Each projection of a LinearGroup has the bits of Linear, and a row those of the same row alone, in every implementation.
#include <gtest/gtest.h>

#include <cstring>

#include "backends/ops.h"
#include "core/error.h"
#include "tests/conformance/operators/device_operands.h"

namespace foretoken {
namespace {

/// The groups of the cases, with contents, on a device.
class GroupOnDevice {
 public:
  GroupOnDevice(GpuBackend& backend, Stream& stream, const OpCase<LinearGroup>& one)
      : backend_(backend), stream_(stream), memory_(backend) {
    op_ = make_on_device(stream, memory_, kSeed, one.make);
  }

  [[nodiscard]] const LinearGroup& op() const { return op_; }

  /// What the outputs of the first `rows` rows hold after `implementation` ran over those.
  std::vector<ByteImage> run(const OpImplementation& implementation, int64_t rows) {
    LinearGroup op = op_;
    op.x = op_.x.rows(0, rows);
    for (size_t i = 0; i < op.num_projections(); ++i) op.out[i] = op_.out[i].rows(0, rows);
    const Buffer scratch =
        allocate_workspace(backend_, implementation.workspace_bytes ? implementation.workspace_bytes(&op) : 0, op.workspace);
    stream_.run([&](CommandList& cmd) { implementation.launch(cmd, &op); });
    return outputs(op);
  }

  /// The same from one Linear after another.
  std::vector<ByteImage> run_singly() {
    const OpTable& table = backend_.ops();
    for (size_t i = 0; i < op_.num_projections(); ++i) {
      Linear op = op_.projection(i);
      const Buffer scratch = allocate_workspace(backend_, ops::workspace_bytes(table, op), op.workspace);
      stream_.run([&](CommandList& cmd) { ops::dispatch(cmd, op); });
      stream_.synchronize();
    }
    return outputs(op_);
  }

 private:
  static constexpr uint64_t kSeed = 7;

  std::vector<ByteImage> outputs(const LinearGroup& op) {
    std::vector<ByteImage> images;
    for (size_t i = 0; i < op.num_projections(); ++i) {
      for (int64_t row = 0; row < op.out[i].dim(0); ++row) {
        const BufferView view = op.out[i].rows(row, 1).view();
        images.emplace_back(view.bytes);
        stream_.download(view, images.back());
        const ByteImage poison(view.bytes, std::byte{0xff});
        stream_.upload(poison, view);
      }
    }
    return images;
  }

  GpuBackend& backend_;
  Stream& stream_;
  OperandSet memory_;
  LinearGroup op_;
};

/// Rows of each projection: the first of `rows` in all.
std::vector<ByteImage> first_rows(const std::vector<ByteImage>& images, size_t rows) {
  std::vector<ByteImage> first;
  for (size_t i = 0; i < images.size(); i += rows) first.push_back(images[i]);
  return first;
}

void expect_bits_of_linear(GpuBackend& backend) {
  const auto stream = backend.create_stream();
  size_t compared = 0;
  for (const OpCase<LinearGroup>& one : LinearGroup::cases()) {
    GroupOnDevice group(backend, *stream, one);
    if (!backend.ops().availability(LinearGroup::schema().name(), &group.op())) continue;  // conformance says whether it may
    const std::vector<ByteImage> expected = group.run_singly();
    const int64_t rows = group.op().x.dim(0);
    for (const OpImplementation& implementation : backend.ops().find(LinearGroup::schema().name())) {
      if (implementation.accepts && !implementation.accepts(&group.op())) continue;
      EXPECT_EQ(group.run(implementation, rows), expected) << one.name << ", " << implementation.name;
      if (group.op().precision != LinearPrecision::kExact) continue;
      EXPECT_EQ(group.run(implementation, 1), first_rows(expected, static_cast<size_t>(rows)))
          << one.name << ", first row by " << implementation.name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 20U);
}

TEST(LinearGroupBits, AreThoseOfLinearOnTheCpu) {
  const auto backend = BackendRegistry::instance().open("cpu", {.num_threads = 3});
  expect_bits_of_linear(*backend);
}

TEST(LinearGroupBits, AreThoseOfLinearOnTheSelectedDevice) {
  const auto backend = selected_device();
  if (backend == nullptr) GTEST_SKIP() << "FORETOKEN_TEST_BACKEND selects no device";
  expect_bits_of_linear(*backend);
}

TEST(LinearGroupChecks, WeightsAndOutputsComeInPairsWithAbsentOnesAtTheEnd) {
  OperandSet host;
  host.begin(1);
  const LinearGroup good = LinearGroup::cases().front().make(host);
  EXPECT_NO_THROW(ops::check(good));
  LinearGroup no_output = good;
  no_output.out[1] = {};
  LinearGroup no_weight = good;
  no_weight.w[1] = {};
  LinearGroup gap = no_weight;
  gap.out[1] = {};
  LinearGroup nothing;
  nothing.x = good.x;
  for (const LinearGroup& bad : {no_output, no_weight, gap, nothing}) {
    try {
      ops::check(bad);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find("linear_group: weight_"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace foretoken
