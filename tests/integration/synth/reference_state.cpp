#include "tests/integration/synth/reference_state.h"

#include <algorithm>
#include <numeric>

namespace foretoken::test {
namespace {

void copy_between(Stream& from, const Tensor& source, Stream& to, const Tensor& destination) {
  std::vector<std::byte> bytes(source.view().bytes);
  from.download(source.view(), bytes);
  to.upload(bytes, destination.view());
}

const MtpWeights& mtp_weights(const TestModel& model) {
  const std::optional<MtpWeights>& weights = model.loaded().mtp;
  if (!weights) throw Error(ErrorCode::kInvalidArgument, "the model has no draft head");
  return *weights;
}

}  // namespace

ReferenceState::ReferenceState(TestModel& model, const TestModelOptions& options, int64_t num_tokens)
    : stream_(backend_.create_stream()),
      target_(backend_, model.config(), model.loaded().target,
              {.max_rows = TargetRunner::kMaxVerifyRows, .max_seq_len = options.max_seq_len, .cache_dtype = options.cache_dtype}),
      kv_cache_(backend_, model.runner().kv_cache().config()),
      states_(backend_, model.runner().states().config()),
      proposer_(backend_, model.config(), mtp_weights(model), model.loaded().target.embed_tokens, model.loaded().target.lm_head,
                {.max_seq_len = options.max_seq_len,
                 .max_drafts = options.max_drafts,
                 .max_append_rows = TargetRunner::kMaxVerifyRows,
                 .cache_dtype = options.cache_dtype,
                 .measure_log_probabilities = true},
                round_) {
  round_.allocate(backend_);
  declare_fields();
  copy_caches(model);
  adopt_drafter_rows(num_tokens - 1);
}

void ReferenceState::declare_fields() {
  MetadataBuffer& buffer = fields_.buffer;
  fields_.input_ids = buffer.add(DType::kI32, {TargetRunner::kMaxVerifyRows});
  fields_.positions = buffer.add(DType::kI32, {TargetRunner::kMaxVerifyRows});
  fields_.slot_mapping = buffer.add(DType::kI64, {TargetRunner::kMaxVerifyRows});
  fields_.query_start_loc = buffer.add(DType::kI32, {2});
  fields_.seq_lens = buffer.add(DType::kI32, {1});
  fields_.state_slots = buffer.add(DType::kI32, {1});
  fields_.num_commit = buffer.add(DType::kI32, {1});
  fields_.block_table = buffer.add(DType::kI32, {1, kv_cache_.config().max_blocks_per_seq});
  buffer.allocate(backend_);
  const auto blocks = buffer.i32(fields_.block_table);
  std::iota(blocks.begin(), blocks.end(), 0);
}

void ReferenceState::copy_caches(TestModel& model) {
  const auto copy = [&](const Tensor& source, const Tensor& destination) {
    copy_between(model.stream(), source, *stream_, destination);
  };
  const auto copy_kv = [&](const PagedKvView& source, const PagedKvView& destination) {
    copy(source.k_cache, destination.k_cache);
    copy(source.v_cache, destination.v_cache);
  };
  int64_t attention_idx = 0;
  int64_t linear_idx = 0;
  for (const LayerType type : model.config().layer_types) {
    PagedKvView kv;
    RecurrentStateView recurrent;
    if (type == LayerType::kFullAttention) {
      kv = kv_cache_.layer(attention_idx);
      copy_kv(model.runner().kv_cache().layer(attention_idx++), kv);
    } else {
      recurrent = states_.layer(linear_idx);
      const RecurrentStateView source = model.runner().states().layer(linear_idx++);
      copy(source.conv_state, recurrent.conv_state);
      copy(source.state, recurrent.state);
    }
    caches_.kv.push_back(kv);
    caches_.recurrent.push_back(recurrent);
  }
  copy_kv(model.proposer().kv_cache().layer(0), proposer_.kv_cache().layer(0));
}

/// A state whose first rows are those that lie in the drafter's cache already.
void ReferenceState::adopt_drafter_rows(int64_t num_rows) {
  drafter_ = proposer_.alloc_state(num_rows + TargetRunner::kMaxVerifyRows);
  DrafterKv kv = proposer_.take_kv(*drafter_);
  kv.num_rows = kv.num_keys = num_rows;
  proposer_.install_kv(kv, num_rows, *drafter_);
}

std::vector<float> ReferenceState::verify(std::span<const int32_t> token_ids, int64_t first_position, int64_t num_commit) {
  const auto rows = static_cast<int64_t>(token_ids.size());
  MetadataBuffer& buffer = fields_.buffer;
  std::ranges::copy(token_ids, buffer.i32(fields_.input_ids).begin());
  for (int64_t row = 0; row < rows; ++row) {
    buffer.i32(fields_.positions)[static_cast<size_t>(row)] = static_cast<int32_t>(first_position + row);
    buffer.i64(fields_.slot_mapping)[static_cast<size_t>(row)] = first_position + row;
  }
  buffer.i32(fields_.query_start_loc)[1] = static_cast<int32_t>(rows);
  buffer.i32(fields_.seq_lens)[0] = static_cast<int32_t>(first_position + rows);
  buffer.i32(fields_.num_commit)[0] = static_cast<int32_t>(num_commit);
  buffer.upload(*stream_);

  const StepView view{.positions = buffer.tensor(fields_.positions).rows(0, rows),
                      .slot_mapping = buffer.tensor(fields_.slot_mapping).rows(0, rows),
                      .query_start_loc = buffer.tensor(fields_.query_start_loc),
                      .seq_lens = buffer.tensor(fields_.seq_lens),
                      .block_table = buffer.tensor(fields_.block_table),
                      .state_slots = buffer.tensor(fields_.state_slots),
                      .num_commit = buffer.tensor(fields_.num_commit),
                      .max_seq_len = target_.options().max_seq_len};
  stream_->run([&](CommandList& cmd) {
    target_.forward(cmd,
                    {.input_ids = buffer.tensor(fields_.input_ids).rows(0, rows),
                     .view = view,
                     .update = StateUpdate::kRecord,
                     .precision = {}},
                    caches_);
  });
  return read(target_.hidden().rows(0, rows));
}

std::vector<float> ReferenceState::logits(int64_t num_rows) {
  const Shape shape{num_rows, target_.config().vocab_size};
  const Buffer memory =
      backend_.allocate(dtype_bytes(DType::kF32, static_cast<size_t>(shape.num_elements())), MemoryKind::kDevice);
  const Tensor logits = memory.tensor(DType::kF32, shape);
  stream_->run([&](CommandList& cmd) { target_.logits(cmd, target_.hidden().rows(0, num_rows), logits); });
  return read(logits);
}

ReferenceState::Drafts ReferenceState::draft(int32_t newest_token_id, std::span<const float> hidden, int64_t num_drafts) {
  const Buffer row = backend_.allocate(hidden.size_bytes(), MemoryKind::kDevice);
  stream_->upload(std::as_bytes(hidden), row.view());
  const Tensor block = propose_one(*stream_, proposer_, {&newest_token_id, 1},
                                   row.tensor(DType::kF32, {1, static_cast<int64_t>(hidden.size())}), num_drafts, *drafter_);
  Drafts drafts{.token_ids = std::vector<int32_t>(static_cast<size_t>(num_drafts)),
                .logprobs = read(proposer_.log_probabilities().rows(0, num_drafts).columns(0, 1)),
                .hidden = read(proposer_.head().hidden().rows(0, 1))};
  stream_->download(block.rows(1, num_drafts).view(), std::as_writable_bytes(std::span(drafts.token_ids)));
  return drafts;
}

std::vector<float> ReferenceState::read(const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.shape().num_elements()));
  stream_->download(tensor.view(), std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace foretoken::test
