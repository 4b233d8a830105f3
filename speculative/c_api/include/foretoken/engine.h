/* The whole engine: a checkpoint's target, its draft head and continuous batching of requests, for those who want text.
 *
 * Text at temperature 0 is that of the target alone, bit for bit, whatever is drafted and whatever else runs; at other
 * temperatures its distribution is the target's. */
#ifndef FORETOKEN_ENGINE_H
#define FORETOKEN_ENGINE_H
/* NOLINTBEGIN(modernize-use-using, modernize-deprecated-headers): C reads this too */

#include "foretoken/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct foretoken_engine foretoken_engine;
typedef struct foretoken_result foretoken_result; /* what came of a request */

typedef struct foretoken_engine_options {
  size_t struct_size;
  const char* model;         /* folder of a checkpoint, or "synth:..."; null: the bundled checkpoint */
  int64_t max_prompt_tokens; /* of a request; 0: 2048. Together at most the model's context */
  int64_t max_tokens;        /* that a request may generate; 0: 2048 */
  int32_t max_sequences;     /* requests decoded at once, 1 .. 64; 0: 1 */
  int32_t max_drafts;        /* of a round, 1 .. 15; 0: 3; -1: no draft head is loaded */
  const char* depth;         /* how many drafts a round makes: "auto", "3", or a ladder by active requests "4:3,16:1"; null: as
                                each request says */
  int32_t require_drafts;    /* not 0: a checkpoint without a draft head is an error */
  int32_t sampling;          /* not 0: requests may ask for more than greedy text */
  int32_t token_masks;       /* not 0: and say which tokens may follow */
  int32_t prefix_snapshots;  /* more than 0: prompts share the memory and the work of what their beginnings have in common; of
                                models with recurrent state, that many states are kept */
  int64_t kv_cache_tokens;   /* of the KV cache; 0: enough for max_sequences of the largest size */
  int32_t prefill_chunk;     /* tokens of one pass of prefill; 0: 512 */
  foretoken_dtype kv_dtype;  /* F32, BF16 or E4M3; default BF16 */
  foretoken_dtype draft_kv_dtype;   /* default: like kv_dtype */
  foretoken_dtype activation_dtype; /* F32 or BF16; default: the device's best */
  foretoken_dtype prefill_dtype;    /* F32 or BF16; default: BF16 where the device is faster with it */
  const char* draft_precision;      /* as in foretoken_drafter_options, null: "auto" */
  const char* draft_fc;
  const char* draft_experts;
  const char* draft_lm_head; /* null: "auto", a cheaper copy where the device is faster with it */
  const char* draft_vocab;
  /* Called while weights are loaded, with bytes done and in all. May be null. */
  void (*on_progress)(void* user, uint64_t done, uint64_t total);
  void* user;
} foretoken_engine_options;

typedef struct foretoken_engine_info {
  size_t struct_size;
  int64_t vocab_size;
  int64_t max_context; /* tokens of prompt and text together */
  int32_t max_sequences;
  int32_t max_drafts;    /* 0: plain decoding only */
  int32_t has_tokenizer; /* 0: token ids only */
} foretoken_engine_info;

/* Since the engine was loaded. */
typedef struct foretoken_engine_statistics {
  size_t struct_size;
  int64_t rounds;
  int64_t prefill_chunks;
  int64_t preemptions;
  int64_t waiting; /* requests now */
  int64_t active;  /* likewise */
  double draft_ms;
  double verify_ms;
} foretoken_engine_statistics;

/* Loads a model. `options` may be null. */
FORETOKEN_API foretoken_status foretoken_engine_load(foretoken_device* device, const foretoken_engine_options* options,
                                                     foretoken_engine** engine);
FORETOKEN_API foretoken_status foretoken_engine_free(foretoken_engine* engine);
FORETOKEN_API foretoken_status foretoken_engine_get_info(foretoken_engine* engine, foretoken_engine_info* info);
FORETOKEN_API foretoken_status foretoken_engine_get_statistics(foretoken_engine* engine, foretoken_engine_statistics* statistics);
/* What was chosen on the caller's behalf, one sentence to a line; also why there are no drafts. Holds while the engine lives. */
FORETOKEN_API foretoken_status foretoken_engine_get_notes(foretoken_engine* engine, const char** notes);

typedef enum foretoken_text_kind FORETOKEN_ENUM {
  FORETOKEN_TEXT_PLAIN = 0,  /* names of special tokens in it are text */
  FORETOKEN_TEXT_PROMPT = 1, /* names of special tokens in it are those tokens */
  FORETOKEN_TEXT_CHAT = 2    /* what a user says, in the model's chat format, up to where the answer begins */
} foretoken_text_kind;

/* Text to token ids. Writes at most `capacity` of them and how many there are; call again with more room when that is more.
 * UNSUPPORTED for a model without a tokenizer. */
FORETOKEN_API foretoken_status foretoken_engine_tokenize(foretoken_engine* engine, const char* text, foretoken_text_kind kind,
                                                         int32_t* token_ids, size_t capacity, size_t* count);

typedef enum foretoken_draft_sampling FORETOKEN_ENUM {
  FORETOKEN_DRAFTS_BLOCK = 0,   /* drawn from the drafter's distribution, verified as a block */
  FORETOKEN_DRAFTS_SAMPLED = 1, /* drawn likewise, verified one by one */
  FORETOKEN_DRAFTS_GREEDY = 2   /* the drafter's best tokens, verified one by one */
} foretoken_draft_sampling;

/* What a callback says of its request. */
typedef enum foretoken_verdict FORETOKEN_ENUM { FORETOKEN_GO_ON = 0, FORETOKEN_CANCEL = 1 } foretoken_verdict;

/* Ranges of numbers are those of the tool's options (foretoken help generate). */
typedef struct foretoken_request {
  size_t struct_size;
  int64_t max_tokens;            /* 0: 128 */
  int32_t num_drafts;            /* of a round; 0: the engine's most; -1: plain decoding. Without meaning under options.depth */
  const int32_t* stop_token_ids; /* an emitted one ends the text and is its last id; null: the model's own end tokens */
  size_t num_stop_token_ids;
  const char* const* stop_strings; /* the text ends before the first of them */
  size_t num_stop_strings;
  int64_t min_tokens; /* stop tokens are not picked before */
  float temperature;  /* 0: greedy */
  int32_t top_k;      /* 0: off */
  float top_p;        /* 0: off */
  float min_p;
  float repetition_penalty; /* 0: off */
  float presence_penalty;
  float frequency_penalty;
  const int32_t* bias_token_ids;
  const float* biases; /* added to the logits of bias_token_ids */
  size_t num_biases;
  uint64_t seed;
  foretoken_draft_sampling draft_sampling;
  /* Which tokens may follow `output`, the ids emitted so far and the drafts before the row: bit id % 32 of word id / 32 of
   * `allowed`, all 0 at the call. Returns 0 when any may. Null: any may. Grammars are told rows in order, see token_masks. */
  int32_t (*mask)(void* user, const int32_t* output, size_t num_output, uint32_t* allowed, size_t num_words);
  /* Called with each token id as it is emitted, and with text as it is settled: `length` bytes, never half a character. They may
   * be null, may call this API, and may cancel their request by what they return: none is called after that. */
  foretoken_verdict (*on_token)(void* user, int32_t token_id);
  foretoken_verdict (*on_text)(void* user, const char* text, size_t length);
  void* user;
} foretoken_request;

/* Queues a request; `request` may be null. The callbacks' `user` must live until the request is over. */
FORETOKEN_API foretoken_status foretoken_engine_submit(foretoken_engine* engine, const int32_t* prompt, size_t num_tokens,
                                                       const foretoken_request* request, int64_t* request_id);
/* One round: admits, reads one piece of one prompt, takes one step of every request that decodes. `has_more` becomes 0 when
 * nothing is left to do. */
FORETOKEN_API foretoken_status foretoken_engine_step(foretoken_engine* engine, int32_t* has_more);
/* Ends a request where it is; its result says so. */
FORETOKEN_API foretoken_status foretoken_engine_cancel(foretoken_engine* engine, int64_t request_id);
FORETOKEN_API foretoken_status foretoken_engine_is_finished(foretoken_engine* engine, int64_t request_id, int32_t* is_finished);
/* The result of a finished request, which is then forgotten. INVALID_STATE for one that is not finished. */
FORETOKEN_API foretoken_status foretoken_engine_take_result(foretoken_engine* engine, int64_t request_id,
                                                            foretoken_result** result);
/* One request from submit to result. Others that wait go on meanwhile; other threads get their turn between rounds. */
FORETOKEN_API foretoken_status foretoken_engine_generate(foretoken_engine* engine, const int32_t* prompt, size_t num_tokens,
                                                         const foretoken_request* request, foretoken_result** result);

typedef enum foretoken_finish_reason FORETOKEN_ENUM {
  FORETOKEN_FINISH_STOP = 0,
  FORETOKEN_FINISH_LENGTH = 1,
  FORETOKEN_FINISH_CANCELLED = 2
} foretoken_finish_reason;

/* Pointers hold until the result is freed. */
typedef struct foretoken_result_info {
  size_t struct_size;
  const int32_t* token_ids; /* the end token included */
  size_t num_token_ids;
  const char* text; /* without special tokens, ends with a zero; "" without a tokenizer */
  size_t text_length;
  foretoken_finish_reason finish_reason;
  int64_t num_cached_tokens; /* of the prompt, from the prefix cache */
  int64_t rounds;            /* that drafted */
  int64_t drafted;
  int64_t accepted;
  double prefill_ms;
  double decode_ms; /* after the first token */
} foretoken_result_info;

FORETOKEN_API foretoken_status foretoken_result_get(foretoken_result* result, foretoken_result_info* info);
FORETOKEN_API foretoken_status foretoken_result_free(foretoken_result* result);

#ifdef __cplusplus
}
#endif
/* NOLINTEND(modernize-use-using, modernize-deprecated-headers) */
#endif
