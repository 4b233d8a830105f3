/* The target model of a checkpoint, step by step: for engines that have none of their own for it, and for trying a drafter out.
 * It picks greedily. */
#ifndef FORETOKEN_TARGET_H
#define FORETOKEN_TARGET_H
/* NOLINTBEGIN(modernize-use-using, modernize-deprecated-headers): C reads this too */

#include "foretoken/drafter.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct foretoken_target_sequence foretoken_target_sequence; /* KV cache and recurrent states of one sequence */

typedef struct foretoken_target_options {
  size_t struct_size;
  int64_t max_seq_len;              /* tokens of a sequence, drafts included; 0: 4096, or the model's context if that is less */
  int32_t max_sequences;            /* alive at once, 1 .. 64; 0: 1 */
  int32_t max_step_rows;            /* of one sequence: the newest token and its drafts, 1 .. 16; 0: 16 */
  int32_t prefill_chunk;            /* tokens of one pass of prefill; 0: 512 */
  foretoken_dtype kv_dtype;         /* F32, BF16 or E4M3; default BF16 */
  foretoken_dtype activation_dtype; /* of the inputs of linear layers, F32 or BF16; default: the device's best */
  foretoken_dtype prefill_dtype;    /* of those of prefill, F32 or BF16; default: BF16 where the device is faster with it */
  foretoken_norm hidden;            /* which hidden states calls give */
} foretoken_target_options;

typedef struct foretoken_target_info {
  size_t struct_size;
  int64_t hidden_size;
  int64_t vocab_size;
  int64_t max_seq_len;
  int32_t max_sequences;
  int32_t max_step_rows;
  int32_t prefill_chunk;
  uint64_t weight_bytes;
} foretoken_target_info;

/* Loads a target without a drafter. `model`: folder of a checkpoint, or "synth:..."; null: the bundled checkpoint. `options` may
 * be null. */
FORETOKEN_API foretoken_status foretoken_target_load(foretoken_device* device, const char* model,
                                                     const foretoken_target_options* options, foretoken_target** target);
FORETOKEN_API foretoken_status foretoken_target_free(foretoken_target* target);
FORETOKEN_API foretoken_status foretoken_target_get_info(foretoken_target* target, foretoken_target_info* info);

/* An empty sequence with room for `max_tokens` tokens, 1 .. max_seq_len. */
FORETOKEN_API foretoken_status foretoken_target_sequence_create(foretoken_target* target, int64_t max_tokens,
                                                                foretoken_target_sequence** sequence);
FORETOKEN_API foretoken_status foretoken_target_sequence_free(foretoken_target_sequence* sequence);
/* Tokens in the caches. */
FORETOKEN_API foretoken_status foretoken_target_sequence_get(foretoken_target_sequence* sequence, int64_t* num_tokens);

/* One pass over the next tokens of a prompt: at most to the next multiple of prefill_chunk, as `num_taken` says. `hidden` becomes
 * the hidden states of those, on the device, until the target's next call. */
FORETOKEN_API foretoken_status foretoken_target_prefill(foretoken_target_sequence* sequence, const int32_t* token_ids,
                                                        int64_t num_tokens, int64_t* num_taken, foretoken_rows* hidden);
/* After the last pass of a prompt: the token that follows, and the hidden state of the prompt's last token. */
FORETOKEN_API foretoken_status foretoken_target_finish_prefill(foretoken_target_sequence* sequence, int32_t* next_token_id,
                                                               foretoken_rows* hidden);

/* One sequence of a step. */
typedef struct foretoken_step {
  foretoken_target_sequence* sequence;
  const int32_t* token_ids; /* [num_rows]: the newest token, then its drafts */
  int32_t num_rows;         /* 1 .. max_step_rows */
  int32_t* picks;           /* [num_rows], written: the token after each row */
  int32_t num_accepted;  /* written: leading drafts that equal the picks. Rows 0 .. num_accepted are now part of the sequence */
  foretoken_rows hidden; /* written: hidden states of all rows, on the device, until the target's next call */
} foretoken_step;

/* Runs the rows of all sequences, each of which appears once. A sequence's picks do not depend on its company, nor on how many
 * rows it has. */
FORETOKEN_API foretoken_status foretoken_target_step(foretoken_target* target, foretoken_step* steps, size_t num_steps);

#ifdef __cplusplus
}
#endif
/* NOLINTEND(modernize-use-using, modernize-deprecated-headers) */
#endif
