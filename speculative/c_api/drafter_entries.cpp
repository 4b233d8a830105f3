// The entries of foretoken/drafter.h.
#include <limits>
#include <string>

#include "speculative/c_api/boundary.h"
#include "speculative/c_api/drafter.h"

namespace foretoken::c_api {
namespace {

/// Rows that were taken out of a sequence.
class KvObject final : public DeviceChild {
 public:
  static constexpr std::string_view kKind = "kv";

  KvObject(std::shared_ptr<DrafterObject> owner, DrafterKv rows)
      : DeviceChild(owner->device()), drafter(std::move(owner)), kv(std::move(rows)) {}

  std::shared_ptr<DrafterObject> drafter;
  DrafterKv kv;
};

void install(SequenceObject& sequence, foretoken_kv* handle, int64_t num_keys) {
  const Locked<KvObject> object(handle);
  if (object->drafter != sequence.drafter) fail_argument("kv", "rows of the same drafter", "rows of another");
  const int64_t held = std::min(object->kv.first_missing_key(), sequence.max_tokens);
  require_range("num_keys", num_keys, 0, held);
  if (sequence.next_key() != 0) throw Error(ErrorCode::kInvalidState, "rows can be installed in an empty sequence only");
  sequence.drafter->proposer().install_kv(object->kv, num_keys, *sequence.state);
  HandleTable::instance().remove(reinterpret_cast<uintptr_t>(handle));
}

}  // namespace
}  // namespace foretoken::c_api

using namespace foretoken;
using namespace foretoken::c_api;

foretoken_status foretoken_drafter_load(foretoken_device* device, const foretoken_drafter_source* source,
                                        const foretoken_drafter_options* options, foretoken_drafter** drafter) {
  return guard([&] {
    const Locked<DeviceObject> on_device(device);
    require(drafter, "drafter");
    require(source, "source");
    const auto from = read_struct(source, "source");
    const auto given = read_struct(options, "options");
    *drafter = make_handle<foretoken_drafter>(std::make_shared<DrafterObject>(drafter_setup(on_device.shared(), from, given)));
  });
}

foretoken_status foretoken_drafter_free(foretoken_drafter* drafter) {
  return guard([&] { free_handle<DrafterObject>(drafter); });
}

foretoken_status foretoken_drafter_get_info(foretoken_drafter* drafter, foretoken_drafter_info* info) {
  return guard([&] {
    const Locked<DrafterObject> object(drafter);
    const MtpProposer& proposer = object->proposer();
    write_struct(info,
                 {.struct_size = 0,
                  .hidden_size = object->config().hidden_size,
                  .vocab_size = object->config().vocab_size,
                  .max_seq_len = proposer.options().max_seq_len,
                  .max_sequences = proposer.options().max_sequences,
                  .max_drafts = static_cast<int32_t>(proposer.max_drafts()),
                  .max_batch = static_cast<int32_t>(proposer.max_parts())},
                 "info");
  });
}

foretoken_status foretoken_drafter_get_memory(foretoken_drafter* drafter, foretoken_drafter_memory* memory) {
  return guard([&] { write_struct(memory, Locked<DrafterObject>(drafter)->memory(), "memory"); });
}

foretoken_status foretoken_drafter_get_statistics(foretoken_drafter* drafter, foretoken_drafter_statistics* statistics) {
  return guard([&] { write_struct(statistics, Locked<DrafterObject>(drafter)->statistics(), "statistics"); });
}

foretoken_status foretoken_drafter_get_notes(foretoken_drafter* drafter, const char** notes) {
  return guard([&] {
    const Locked<DrafterObject> object(drafter);
    require(notes, "notes") = object->notes().c_str();
  });
}

foretoken_status foretoken_drafter_prepare(foretoken_drafter* drafter, int32_t num_sequences, int32_t num_drafts,
                                           foretoken_dtype hidden_dtype) {
  return guard([&] {
    const Locked<DrafterObject> object(drafter);
    require_range("num_sequences", num_sequences, 1, object->proposer().max_parts());
    require_range("num_drafts", num_drafts, 1, object->proposer().max_drafts());
    const DType dtype = dtype_of(hidden_dtype, "hidden_dtype");
    if (dtype != DType::kF32 && dtype != DType::kBF16) {
      fail_argument("hidden_dtype", "F32 or BF16", to_string(dtype));
    }
    object->prepare(num_sequences, num_drafts, dtype);
  });
}

foretoken_status foretoken_drafter_get_device_token_ids(foretoken_drafter* drafter, uint64_t* address, int64_t* row_stride) {
  return guard([&] {
    const Locked<DrafterObject> object(drafter);
    require(address, "address");
    require(row_stride, "row_stride");
    const Tensor& ids = object->proposer().block_token_ids();
    *address = ids.address();
    *row_stride = ids.row_stride();
  });
}

foretoken_status foretoken_sequence_create(foretoken_drafter* drafter, int64_t max_tokens, foretoken_sequence** sequence) {
  return guard([&] {
    const Locked<DrafterObject> object(drafter);
    require(sequence, "sequence");
    require_range("max_tokens", max_tokens, 1, object->proposer().options().max_seq_len);
    *sequence = make_handle<foretoken_sequence>(std::make_shared<SequenceObject>(object.shared(), max_tokens));
  });
}

foretoken_status foretoken_sequence_free(foretoken_sequence* sequence) {
  return guard([&] { free_handle<SequenceObject>(sequence); });
}

foretoken_status foretoken_sequence_get(foretoken_sequence* sequence, int64_t* num_rows, int64_t* next_key) {
  return guard([&] {
    const Locked<SequenceObject> object(sequence);
    if (num_rows != nullptr) *num_rows = object->drafter->proposer().num_rows(*object->state);
    if (next_key != nullptr) *next_key = object->next_key();
  });
}

foretoken_status foretoken_sequence_prefill(foretoken_sequence* sequence, const int32_t* next_token_ids,
                                            const foretoken_rows* hidden) {
  return guard([&] {
    const Locked<SequenceObject> object(sequence);
    const HiddenRows rows(*object->device(), require(hidden, "hidden"), object->drafter->config().hidden_size, "hidden");
    object->drafter->prefill(*object, {&require(next_token_ids, "next_token_ids"), static_cast<size_t>(rows.num_rows())}, rows);
  });
}

foretoken_status foretoken_sequence_skip(foretoken_sequence* sequence, int64_t first_key) {
  return guard([&] {
    const Locked<SequenceObject> object(sequence);
    object->require_verified();
    require_range("first_key", first_key, object->next_key(), object->max_tokens);
    object->drafter->proposer().skip_to(first_key, *object->state);
  });
}

foretoken_status foretoken_propose_batch(foretoken_drafter* drafter, foretoken_draft* drafts, size_t num_drafts) {
  return guard([&] {
    const Locked<DrafterObject> object(drafter);
    require_range("num_drafts", static_cast<int64_t>(std::min<size_t>(num_drafts, 1U << 20)), 1, object->proposer().max_parts());
    object->propose({&require(drafts, "drafts"), num_drafts});
  });
}

foretoken_status foretoken_sequence_propose(foretoken_sequence* sequence, const int32_t* next_token_ids,
                                            const foretoken_rows* hidden, int32_t num_drafts, int32_t* draft_token_ids,
                                            int32_t* num_drafted) {
  return guard([&] {
    const Locked<SequenceObject> object(sequence);
    foretoken_draft draft{.sequence = sequence,
                          .next_token_ids = next_token_ids,
                          .hidden = require(hidden, "hidden"),
                          .num_drafts = num_drafts,
                          .draft_token_ids = draft_token_ids,
                          .log_probabilities = nullptr,
                          .num_drafted = 0};
    object->drafter->propose({&draft, 1});
    if (num_drafted != nullptr) *num_drafted = draft.num_drafted;
  });
}

foretoken_status foretoken_sequence_after_verify(foretoken_sequence* sequence, int32_t num_accepted) {
  return guard([&] {
    const Locked<SequenceObject> object(sequence);
    object->drafter->after_verify(*object, num_accepted);
  });
}

foretoken_status foretoken_sequence_take_kv(foretoken_sequence* sequence, foretoken_kv** kv) {
  return guard([&] {
    const Locked<SequenceObject> object(sequence);
    require(kv, "kv");
    object->require_verified();
    *kv = make_handle<foretoken_kv>(
        std::make_shared<KvObject>(object->drafter, object->drafter->proposer().take_kv(*object->state)));
  });
}

foretoken_status foretoken_sequence_install_kv(foretoken_sequence* sequence, foretoken_kv* kv, int64_t num_keys) {
  return guard([&] { install(*Locked<SequenceObject>(sequence), kv, num_keys); });
}

foretoken_status foretoken_kv_get(foretoken_kv* kv, int64_t* num_keys) {
  return guard([&] {
    const Locked<KvObject> object(kv);
    require(num_keys, "num_keys") = object->kv.first_missing_key();
  });
}

foretoken_status foretoken_kv_free(foretoken_kv* kv) {
  return guard([&] { free_handle<KvObject>(kv); });
}
