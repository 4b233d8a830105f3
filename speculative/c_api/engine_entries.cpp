// The entries of foretoken/engine.h.
#include <algorithm>
#include <string>

#include "models/chat_format.h"
#include "speculative/c_api/boundary.h"
#include "speculative/c_api/engine.h"

namespace foretoken::c_api {
namespace {

std::vector<int32_t> encode(const Tokenizer& tokenizer, std::string_view text, foretoken_text_kind kind) {
  switch (kind) {
    case FORETOKEN_TEXT_PLAIN: return tokenizer.encode(text, SpecialTokens::kPlainText);
    case FORETOKEN_TEXT_PROMPT: return tokenizer.encode(text, SpecialTokens::kParse);
    case FORETOKEN_TEXT_CHAT: return encode_chat(tokenizer, std::nullopt, text);
  }
  fail_argument("kind", "a foretoken_text_kind", std::to_string(static_cast<int>(kind)));
}

foretoken_finish_reason reason_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return FORETOKEN_FINISH_STOP;
    case FinishReason::kLength: return FORETOKEN_FINISH_LENGTH;
    case FinishReason::kCancelled: break;
  }
  return FORETOKEN_FINISH_CANCELLED;
}

foretoken_result* take(EngineObject& engine, RequestId id) {
  return make_handle<foretoken_result>(std::make_shared<ResultObject>(engine.device(), engine.generator().take_result(id)));
}

/// Rounds until the request is over. The engine is free for other threads between them.
foretoken_result* generate(foretoken_engine* handle, std::span<const int32_t> prompt, const foretoken_request* request) {
  const RequestId id = Locked<EngineObject>(handle)->submit(prompt, request);
  for (;;) {
    const Locked<EngineObject> engine(handle);
    if (engine->generator().is_finished(id)) return take(*engine, id);
    try {
      engine->generator().step();
    } catch (...) {
      engine->generator().cancel(id);
      if (engine->generator().is_finished(id)) static_cast<void>(engine->generator().take_result(id));
      throw;
    }
  }
}

foretoken_result_info info_of(const GenerationResult& result) {
  return {.struct_size = 0,
          .token_ids = result.output_token_ids.data(),
          .num_token_ids = result.output_token_ids.size(),
          .text = result.text.c_str(),
          .text_length = result.text.size(),
          .finish_reason = reason_of(result.finish_reason),
          .num_cached_tokens = result.num_cached_tokens,
          .rounds = result.speculation.rounds(),
          .drafted = result.speculation.drafted,
          .accepted = result.speculation.accepted(),
          .prefill_ms = result.timing.prefill_ms,
          .decode_ms = result.timing.decode_ms};
}

}  // namespace
}  // namespace foretoken::c_api

using namespace foretoken;
using namespace foretoken::c_api;

foretoken_status foretoken_engine_load(foretoken_device* device, const foretoken_engine_options* options,
                                       foretoken_engine** engine) {
  return guard([&] {
    const Locked<DeviceObject> on_device(device);
    require(engine, "engine");
    const auto given = read_struct(options, "options");
    *engine = make_handle<foretoken_engine>(std::make_shared<EngineObject>(on_device.shared(), given));
  });
}

foretoken_status foretoken_engine_free(foretoken_engine* engine) {
  return guard([&] { free_handle<EngineObject>(engine); });
}

foretoken_status foretoken_engine_get_info(foretoken_engine* engine, foretoken_engine_info* info) {
  return guard([&] {
    const Locked<EngineObject> object(engine);
    const Engine& made = object->engine();
    write_struct(info,
                 {.struct_size = 0,
                  .vocab_size = made.config().vocab_size,
                  .max_context = object->generator().max_context(),
                  .max_sequences = made.options().max_sequences,
                  .max_drafts = made.can_speculate() ? static_cast<int32_t>(made.options().max_speculative_tokens) : 0,
                  .has_tokenizer = made.tokenizer() != nullptr ? 1 : 0},
                 "info");
  });
}

foretoken_status foretoken_engine_get_statistics(foretoken_engine* engine, foretoken_engine_statistics* statistics) {
  return guard([&] {
    const Locked<EngineObject> object(engine);
    const GenerationStatistics& counted = object->generator().statistics();
    write_struct(statistics,
                 {.struct_size = 0,
                  .rounds = counted.num_rounds,
                  .prefill_chunks = counted.num_prefill_chunks,
                  .preemptions = counted.num_preemptions,
                  .waiting = object->generator().num_waiting(),
                  .active = object->generator().num_active(),
                  .draft_ms = counted.draft_us / 1000.0,
                  .verify_ms = counted.verify_us / 1000.0},
                 "statistics");
  });
}

foretoken_status foretoken_engine_get_notes(foretoken_engine* engine, const char** notes) {
  return guard([&] {
    const Locked<EngineObject> object(engine);
    require(notes, "notes") = object->notes().c_str();
  });
}

foretoken_status foretoken_engine_tokenize(foretoken_engine* engine, const char* text, foretoken_text_kind kind,
                                           int32_t* token_ids, size_t capacity, size_t* count) {
  return guard([&] {
    const Locked<EngineObject> object(engine);
    require(text, "text");
    require(count, "count");
    if (capacity > 0) require(token_ids, "token_ids");
    const std::vector<int32_t> ids = encode(object->tokenizer(), text, kind);
    std::copy_n(ids.begin(), std::min(capacity, ids.size()), token_ids);
    *count = ids.size();
  });
}

foretoken_status foretoken_engine_submit(foretoken_engine* engine, const int32_t* prompt, size_t num_tokens,
                                         const foretoken_request* request, int64_t* request_id) {
  return guard([&] {
    const Locked<EngineObject> object(engine);
    require(request_id, "request_id");
    *request_id = object->submit({&require(prompt, "prompt"), num_tokens}, request);
  });
}

foretoken_status foretoken_engine_step(foretoken_engine* engine, int32_t* has_more) {
  return guard([&] {
    const Locked<EngineObject> object(engine);
    require(has_more, "has_more");
    *has_more = object->generator().step() ? 1 : 0;
  });
}

foretoken_status foretoken_engine_cancel(foretoken_engine* engine, int64_t request_id) {
  return guard([&] { Locked<EngineObject>(engine)->generator().cancel(request_id); });
}

foretoken_status foretoken_engine_is_finished(foretoken_engine* engine, int64_t request_id, int32_t* is_finished) {
  return guard([&] {
    const Locked<EngineObject> object(engine);
    require(is_finished, "is_finished") = object->generator().is_finished(request_id) ? 1 : 0;
  });
}

foretoken_status foretoken_engine_take_result(foretoken_engine* engine, int64_t request_id, foretoken_result** result) {
  return guard([&] {
    const Locked<EngineObject> object(engine);
    require(result, "result") = take(*object, request_id);
  });
}

foretoken_status foretoken_engine_generate(foretoken_engine* engine, const int32_t* prompt, size_t num_tokens,
                                           const foretoken_request* request, foretoken_result** result) {
  return guard([&] {
    require(result, "result");
    *result = generate(engine, {&require(prompt, "prompt"), num_tokens}, request);
  });
}

foretoken_status foretoken_result_get(foretoken_result* result, foretoken_result_info* info) {
  return guard([&] { write_struct(info, info_of(Locked<ResultObject>(result)->result), "info"); });
}

foretoken_status foretoken_result_free(foretoken_result* result) {
  return guard([&] { free_handle<ResultObject>(result); });
}
