#include "batch_model.h"

#include <cstdlib>

#include "backends/ops.h"
#include "backends/registry.h"
#include "models/checkpoint.h"
#include "tests/support/golden.h"

namespace foretoken::test {

std::unique_ptr<GpuBackend> open_test_device() {
  const char* selector = std::getenv("FORETOKEN_TEST_BACKEND");
  return selector == nullptr ? BackendRegistry::instance().open("cpu", {.num_threads = 2})
                             : BackendRegistry::instance().open(selector);
}

BatchModel::BatchModel(GpuBackend& backend, const std::string& checkpoint, const DraftFormats& formats)
    : backend_(backend),
      loaded_(load_model(backend, Checkpoint(data_path(checkpoint)), load_model_config(data_path(checkpoint)))),
      stream_(backend.create_stream()),
      head_(make_draft_head(backend, *stream_, loaded_.drafter(), formats)) {
  const Shape shape{kHiddenRows, loaded_.config.hidden_size};
  hidden_memory_ = backend.allocate(dtype_bytes(DType::kF32, static_cast<size_t>(shape.num_elements())));
  hidden_ = hidden_memory_.tensor(DType::kF32, shape);
  stream_->run([&](CommandList& cmd) {
    ops::dispatch(cmd, RandomFill{.out = hidden_.reshape({shape.num_elements()}), .seed = 5, .exponent = -7});
  });
  stream_->synchronize();
}

int32_t BatchModel::random_id(std::mt19937_64& generator) const {
  return static_cast<int32_t>(generator() % static_cast<uint64_t>(loaded_.config.vocab_size));
}

std::vector<std::byte> BatchModel::read(const Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.view().bytes);
  stream_->download(tensor.view(), bytes);
  return bytes;
}

BatchDrafter::BatchDrafter(BatchModel& model, const DraftHead& head, const MtpProposerOptions& options) : model_(model) {
  proposer_ = make_proposer(model.backend(), model.loaded().config, head, options, round_);
  round_.allocate(model.backend());
}

BatchDrafter::Drafted BatchDrafter::propose(std::span<const DraftPart> parts) {
  const Tensor blocks = proposer_->propose(model_.stream(), parts, model_.hidden());
  const Tensor logprobs = proposer_->log_probabilities();
  Drafted drafted;
  for (size_t b = 0; b < parts.size(); ++b) {
    const auto row = static_cast<int64_t>(b);
    auto& block = drafted.blocks.emplace_back(static_cast<size_t>(1 + parts[b].num_drafts));
    model_.stream().download(blocks.at(row).rows(0, 1 + parts[b].num_drafts).view(), std::as_writable_bytes(std::span(block)));
    auto& line = drafted.logprobs.emplace_back();
    if (!logprobs) continue;
    line.resize(static_cast<size_t>(parts[b].num_drafts));
    for (int64_t i = 0; i < parts[b].num_drafts; ++i) {
      model_.stream().download(logprobs.at(i).rows(row, 1).view(),
                               std::as_writable_bytes(std::span(line).subspan(static_cast<size_t>(i), 1)));
    }
  }
  return drafted;
}

std::vector<std::byte> BatchDrafter::rows(const DrafterKv& kv) {
  const PagedKvView view = proposer_->kv_cache().layer(0);
  std::vector<std::byte> all;
  for (int64_t row = 0; row < kv.num_rows; ++row) {
    const int64_t slot = kv.blocks.slot(row);
    for (const Tensor& side : {view.k_cache, view.v_cache}) {
      const Tensor slots = side.reshape({side.dim(0) * side.dim(1), side.dim(2) * side.dim(3)});
      const std::vector<std::byte> bytes = model_.read(slots.rows(slot, 1));
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
  }
  return all;
}

}  // namespace foretoken::test
