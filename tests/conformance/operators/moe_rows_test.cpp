// A row of a mixture of experts has the same bits in any company, on the CPU and on the device that FORETOKEN_TEST_BACKEND names.
#include <gtest/gtest.h>

#include "backends/ops.h"
#include "core/ops/case_parts.h"
#include "tests/conformance/operators/device_operands.h"

namespace foretoken {
namespace {

using case_parts::WeightKind;

constexpr uint64_t kSeed = 5;
constexpr WeightKind kWeights[] = {{},
                                   {.format = WeightFormat::kFp8Row},
                                   {.format = WeightFormat::kFp8Block, .scale_dtype = DType::kBF16},
                                   {.format = WeightFormat::kNvfp4}};

/// Operands on a device, made from the contents that the same maker gives in host memory.
class Device {
 public:
  explicit Device(GpuBackend& backend) : backend_(backend), stream_(backend.create_stream()), memory_(backend) {}

  template <class Make>
  auto make(const Make& make) {
    return make_on_device(*stream_, memory_, kSeed, make);
  }

  /// Runs a copy of the operator and returns the bytes of one of its results.
  template <class Op>
  ByteImage run(Op op, const Tensor& out) {
    Buffer scratch;
    if constexpr (requires { op.workspace; }) {
      scratch = allocate_workspace(backend_, ops::workspace_bytes(backend_.ops(), op), op.workspace);
    }
    stream_->run([&](CommandList& cmd) { ops::dispatch(cmd, op); });
    return read(out);
  }
  ByteImage read(const Tensor& tensor) {
    ByteImage image(tensor.bytes());
    stream_->download(tensor.view(), image);
    return image;
  }

 private:
  GpuBackend& backend_;
  std::unique_ptr<Stream> stream_;
  OperandSet memory_;
};

/// Rows [first, first + count) of a result of `num_rows` rows.
ByteImage rows_of(const ByteImage& image, int64_t num_rows, int64_t first, int64_t count) {
  const auto row_bytes = static_cast<int64_t>(image.size()) / num_rows;
  return {image.begin() + first * row_bytes, image.begin() + (first + count) * row_bytes};
}

constexpr int64_t kRows = 19;
constexpr std::pair<int64_t, int64_t> kParts[] = {{0, 1}, {6, 1}, {18, 1}, {4, 2}, {1, 5}, {0, 8}, {11, 8}, {2, 9}, {3, 16}};

constexpr int64_t kExperts = 8;
constexpr int64_t kSlots = 3;
constexpr int64_t kHidden = 544;
constexpr int64_t kIntermediate = 160;

/// What moe_route gives for rows [first, first + count) of the same random picks.
struct Route {
  std::vector<int32_t> topk_ids, expert_offsets{0}, expert_pairs;

  Route(int64_t first, int64_t count) {
    for (int64_t row = first; row < first + count; ++row) {
      std::mt19937_64 generator(kSeed + static_cast<uint64_t>(row));
      const auto ids = case_parts::sample_distinct(generator, kExperts, kSlots);
      topk_ids.insert(topk_ids.end(), ids.begin(), ids.end());
    }
    for (int32_t expert = 0; expert < kExperts; ++expert) {
      for (size_t pair = 0; pair < topk_ids.size(); ++pair) {
        if (topk_ids[pair] == expert) expert_pairs.push_back(static_cast<int32_t>(pair));
      }
      expert_offsets.push_back(static_cast<int32_t>(expert_pairs.size()));
    }
  }
};

/// Both projections of a mixture, over rows [first, first + count) of the same operands.
struct Mixture {
  MoeExpertsUp up;
  MoeExpertsDown down;
};

Mixture make_mixture(OperandMaker& maker, DType activations, const WeightKind& kind, int64_t first, int64_t count) {
  const Route route(first, count);
  Mixture mixture;
  MoeExpertsUp& up = mixture.up;
  up.x = maker.input(activations, {kRows, kHidden}, fill::normal(1.0)).rows(first, count);
  up.gate_up = case_parts::weight_of(maker, kind, {kExperts, 2 * kIntermediate, kHidden}, 0.05);
  up.expert_offsets = maker.input(DType::kI32, {kExperts + 1}, case_parts::listed(route.expert_offsets));
  up.expert_pairs = maker.input(DType::kI32, {count * kSlots}, case_parts::listed(route.expert_pairs));
  up.out = maker.output(activations, {count, kSlots, kIntermediate});
  MoeExpertsDown& down = mixture.down;
  down.act = up.out;
  down.down = case_parts::weight_of(maker, kind, {kExperts, kHidden, kIntermediate}, 0.05);
  down.topk_ids = maker.input(DType::kI32, {count, kSlots}, case_parts::listed(route.topk_ids));
  down.topk_weights = maker.input(DType::kF32, {kRows, kSlots}, fill::uniform(0.05, 0.5)).rows(first, count);
  down.expert_offsets = up.expert_offsets;
  down.expert_pairs = up.expert_pairs;
  down.shared = maker.input(DType::kF32, {kRows, kHidden}, fill::normal(1.0)).rows(first, count);
  down.shared_gate = maker.input(DType::kF32, {kRows, 1}, fill::normal(1.0)).rows(first, count);
  down.out = maker.output(DType::kF32, {count, kHidden});
  return mixture;
}

struct MixtureResults {
  ByteImage act, out;
};

MixtureResults run_mixture(GpuBackend& backend, DType activations, const WeightKind& kind, int64_t first, int64_t count) {
  Device device(backend);
  const Mixture mixture = device.make([&](OperandMaker& maker) { return make_mixture(maker, activations, kind, first, count); });
  MixtureResults results;
  results.act = device.run(mixture.up, mixture.up.out);
  results.out = device.run(mixture.down, mixture.down.out);
  return results;
}

void expect_mixture_row_bits(GpuBackend& backend, DType activations, const WeightKind& kind) {
  SCOPED_TRACE(case_parts::name_of(kind));
  const MixtureResults all = run_mixture(backend, activations, kind, 0, kRows);
  for (const auto& [first, count] : kParts) {
    const MixtureResults part = run_mixture(backend, activations, kind, first, count);
    EXPECT_EQ(part.act, rows_of(all.act, kRows, first, count)) << "act of " << count << " rows from row " << first;
    EXPECT_EQ(part.out, rows_of(all.out, kRows, first, count)) << "out of " << count << " rows from row " << first;
  }
}

/// A mixture with its router and shared expert, over rows [first, first + count) of the same x.
MoeBlock make_block(OperandMaker& maker, DType activations, const WeightKind& kind, int64_t first, int64_t count) {
  constexpr int64_t kShared = 96;
  MoeBlock op;
  op.x = maker.input(activations, {kRows, kHidden}, fill::normal(1.0)).rows(first, count);
  op.router = case_parts::weight_of(maker, {}, {kExperts, kHidden}, 0.05);
  op.shared_expert_gate = case_parts::weight_of(maker, {}, {1, kHidden}, 0.05);
  op.shared_gate = case_parts::weight_of(maker, kind, {kShared, kHidden}, 0.05);
  op.shared_up = case_parts::weight_of(maker, kind, {kShared, kHidden}, 0.05);
  op.shared_down = case_parts::weight_of(maker, kind, {kHidden, kShared}, 0.05);
  op.gate_up = case_parts::weight_of(maker, kind, {kExperts, 2 * kIntermediate, kHidden}, 0.05);
  op.down = case_parts::weight_of(maker, kind, {kExperts, kHidden, kIntermediate}, 0.05);
  op.logits = maker.output(DType::kF32, {count, kExperts});
  op.shared_score = maker.output(DType::kF32, {count, 1});
  op.shared_act = maker.output(activations, {count, kShared});
  op.shared = maker.output(DType::kF32, {count, kHidden});
  op.topk_ids = maker.output(DType::kI32, {count, kSlots});
  op.topk_weights = maker.output(DType::kF32, {count, kSlots});
  op.expert_offsets = maker.output(DType::kI32, {kExperts + 1});
  op.expert_pairs = maker.output(DType::kI32, {count * kSlots});
  op.act = maker.output(activations, {count, kSlots, kIntermediate});
  op.out = maker.output(DType::kF32, {count, kHidden});
  return op;
}

/// What a block writes of each row, in one order.
std::vector<ByteImage> run_block(GpuBackend& backend, DType activations, const WeightKind& kind, int64_t first, int64_t count) {
  Device device(backend);
  const MoeBlock block = device.make([&](OperandMaker& maker) { return make_block(maker, activations, kind, first, count); });
  std::vector<ByteImage> results{device.run(block, block.out)};
  for (const Tensor& tensor :
       {block.logits, block.shared_score, block.shared_act, block.shared, block.topk_ids, block.topk_weights, block.act}) {
    results.push_back(device.read(tensor));
  }
  return results;
}

void expect_block_row_bits(GpuBackend& backend, DType activations, const WeightKind& kind) {
  SCOPED_TRACE("block of " + case_parts::name_of(kind));
  const std::vector<ByteImage> all = run_block(backend, activations, kind, 0, kRows);
  for (const auto& [first, count] : kParts) {
    const std::vector<ByteImage> part = run_block(backend, activations, kind, first, count);
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(part[i], rows_of(all[i], kRows, first, count)) << "result " << i << " of " << count << " rows from row " << first;
    }
  }
}

void expect_row_bits(GpuBackend& backend, DType activations) {
  SCOPED_TRACE(std::string(to_string(activations)) + " activations");
  for (const WeightKind& kind : kWeights) {
    expect_mixture_row_bits(backend, activations, kind);
    expect_block_row_bits(backend, activations, kind);
  }
}

TEST(MoeRows, GiveTheSameBitsInAnyCompanyOnTheCpu) {
  const auto backend = BackendRegistry::instance().open("cpu", {.num_threads = 3});
  expect_row_bits(*backend, DType::kF32);
}

TEST(MoeRows, GiveTheSameBitsInAnyCompanyOnTheSelectedDevice) {
  const auto backend = selected_device();
  if (backend == nullptr) GTEST_SKIP() << "FORETOKEN_TEST_BACKEND selects no device";
  for (const DType activations : backend->capabilities().activation_dtypes) expect_row_bits(*backend, activations);
}

}  // namespace
}  // namespace foretoken
