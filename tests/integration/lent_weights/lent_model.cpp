#include "lent_model.h"

#include <algorithm>

#include "core/error.h"

namespace foretoken::test {

VariantFolder::VariantFolder(const Variant& variant) : checkpoint_(bundled(variant.checkpoint)) {
  if (variant.stored) {
    uint64_t seed = 100;
    const std::vector<std::string> parts{"fc",        "q_proj",  "k_proj",    "v_proj", "o_proj",
                                         "gate_proj", "up_proj", "down_proj", "lm_head"};
    if (variant.splits_experts) checkpoint_.split_experts();
    for (const std::string& base : linears(checkpoint_, "mtp.", parts)) quantise(checkpoint_, base, *variant.stored, seed += 10);
    if (checkpoint_.tensors.contains("lm_head.weight")) quantise(checkpoint_, "lm_head", *variant.stored, seed += 10);
    format_ = format_of(*variant.stored);
  } else if (variant.splits_experts) {
    checkpoint_.split_experts();
  }
  checkpoint_.write(path());
}

uint64_t VariantFolder::bytes(const std::function<bool(std::string_view)>& accepts) const {
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : checkpoint_.tensors) bytes += accepts(name) ? tensor.bytes.size() : 0;
  return bytes;
}

bool is_of_head(std::string_view tensor_name) { return tensor_name.starts_with("mtp."); }
bool is_of_both(std::string_view tensor_name) {
  return tensor_name.find("embed_tokens.") != std::string_view::npos || tensor_name.starts_with("lm_head.");
}
bool is_of_drafter(std::string_view tensor_name) { return is_of_head(tensor_name) || is_of_both(tensor_name); }

LentTensors::LentTensors(GpuBackend& backend, const EditableCheckpoint& checkpoint,
                         const std::function<bool(std::string_view)>& accepts) {
  // Every tensor begins at an odd multiple.
  constexpr size_t kStep = 2 * kNativeAlignment;
  const auto padded = [](size_t bytes) { return (bytes + kStep - 1) / kStep * kStep; };
  size_t bytes = kNativeAlignment;
  for (const auto& [name, tensor] : checkpoint.tensors) bytes += accepts(name) ? padded(tensor.bytes.size()) : 0;
  memory_ = backend.allocate(bytes);
  adopted_ = backend.adopt_memory(memory_.view().native());
  const std::unique_ptr<Stream> stream = backend.create_stream();
  size_t offset = kNativeAlignment;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (!accepts(name)) continue;
    tensors_.push_back({.name = name, .tensor = adopted_.tensor(tensor.dtype, tensor.shape, offset)});
    stream->upload(tensor.bytes, tensors_.back().tensor.view());
    offset += padded(tensor.bytes.size());
  }
  stream->synchronize();
}

const Tensor& LentTensors::at(const std::string& name) const {
  const auto found = std::ranges::find(tensors_, name, &LentTensor::name);
  if (found == tensors_.end()) throw Error(ErrorCode::kInvalidArgument, "no lent tensor " + name);
  return found->tensor;
}

DraftedText drafted_by(BatchModel& model, const DraftHead& head, DType cache_dtype) {
  constexpr int32_t kSequences = 5;
  constexpr int64_t kDrafts = 4;
  BatchDrafter drafter(model, head,
                       {.max_seq_len = 64,
                        .max_sequences = kSequences,
                        .max_drafts = kDrafts,
                        .max_append_rows = 16,
                        .cache_dtype = cache_dtype,
                        .measure_log_probabilities = true});
  MtpProposer& proposer = drafter.proposer();
  std::mt19937_64 generator(7);
  std::vector<std::unique_ptr<ProposerState>> states;
  std::vector<std::vector<int32_t>> ids(kSequences, std::vector<int32_t>(9));
  DraftedText text;
  for (size_t i = 0; i < kSequences; ++i) {
    for (int32_t& id : ids[i]) id = model.random_id(generator);
    states.push_back(proposer.alloc_state(64));
    proposer.append_rows(model.stream(), ids[i], model.hidden().rows(static_cast<int64_t>(20 * i), 9), LinearPrecision::kExact,
                         *states.back());
  }
  for (int64_t round = 0; round < 3; ++round) {
    std::vector<DraftPart> parts;
    for (size_t i = 0; i < kSequences; ++i) {
      ids[i].assign(2, model.random_id(generator));
      parts.push_back({.state = states[i].get(),
                       .next_token_ids = ids[i],
                       .first_hidden_row = 200 + 7 * round + static_cast<int64_t>(i),
                       .num_drafts = kDrafts});
    }
    BatchDrafter::Drafted drafted = drafter.propose(parts);
    std::ranges::move(drafted.blocks, std::back_inserter(text.blocks));
    for (const std::vector<float>& line : drafted.logprobs) {
      const auto bytes = std::as_bytes(std::span(line));
      text.logprobs.insert(text.logprobs.end(), bytes.begin(), bytes.end());
    }
    for (const auto& state : states) proposer.after_verify(1, *state);
  }
  for (const auto& state : states) {
    const std::vector<std::byte> rows = drafter.rows(proposer.take_kv(*state));
    text.rows.insert(text.rows.end(), rows.begin(), rows.end());
  }
  return text;
}

}  // namespace foretoken::test
