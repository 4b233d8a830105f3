/* A draft head with its cache, for engines that own their target model.
 *
 * Coordinates. t_0, t_1, ... are the committed tokens and h_k is the target's hidden state of token k. The drafter's row k is
 * built from (the embedding of t_{k+1}, h_k). Whoever has fed the target a token knows its hidden state and, a moment later, the
 * token that follows: those two are a row. A round:
 *
 *   foretoken_sequence_prefill(sequence, t_1 .. t_{n-1}, h_0 .. h_{n-2})      once, the prompt t_0 .. t_{n-1} but its last token
 *   foretoken_sequence_propose(sequence, {t_n}, {h_{n-1}}, K, d)              t_n: the target's first token
 *   (the target takes t_n, d_1 .. d_K in one step and accepts a of the drafts; its picks are d_1 .. d_a and a new token b)
 *   foretoken_sequence_after_verify(sequence, a)
 *   foretoken_sequence_propose(sequence, {d_1, .., d_a, b}, {hidden states of the step's first a + 1 rows}, K, d)
 *   and so on.
 *
 * Drafts never decide a text: whatever the drafter says, the target's picks are what counts. */
#ifndef FORETOKEN_DRAFTER_H
#define FORETOKEN_DRAFTER_H
/* NOLINTBEGIN(modernize-use-using, modernize-deprecated-headers): C reads this too */

#include "foretoken/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct foretoken_drafter foretoken_drafter;
typedef struct foretoken_sequence foretoken_sequence; /* what a drafter keeps of one sequence */
typedef struct foretoken_kv foretoken_kv;             /* rows that were taken out of a sequence */
typedef struct foretoken_target foretoken_target;     /* foretoken/target.h */

#define FORETOKEN_MAX_DRAFTS 15

typedef enum foretoken_norm FORETOKEN_ENUM {
  FORETOKEN_POST_NORM = 0, /* after the final norm */
  FORETOKEN_PRE_NORM = 1   /* the residual stream before it */
} foretoken_norm;

/* Which cache rows of a chain of drafts stay after a verify. */
typedef enum foretoken_row_policy FORETOKEN_ENUM {
  FORETOKEN_ROWS_EXACT = 0, /* those built from the target's hidden states only */
  FORETOKEN_ROWS_REFEED_ACCEPTED = 1,
  FORETOKEN_ROWS_TRIM = 2
} foretoken_row_policy;

/* A tensor of the checkpoint that the caller holds on the device: contiguous, 16-byte aligned, written before it is lent and
 * unchanged while the drafter lives. Dtypes and shapes are a checkpoint's (NVFP4 codes: U8 [N, K / 2]); a weight is lent with all
 * of its scales, and routed experts all together. */
typedef struct foretoken_weight {
  const char* name; /* as in a checkpoint: "mtp.fc.weight", "lm_head.weight", ... with its scales by their names */
  foretoken_buffer* buffer;
  uint64_t offset; /* bytes */
  foretoken_dtype dtype;
  int32_t rank; /* 0 .. 4 */
  int64_t shape[4];
} foretoken_weight;

/* Where weights come from. A lent tensor is used where it lies if its checkpoint form is the form that kernels read (matrices of
 * linear layers, the embedding and the LM head always are); small ones that are not (BF16 norms) are converted into memory of the
 * library. foretoken_drafter_get_memory tells the two apart. */
typedef struct foretoken_drafter_source {
  size_t struct_size;
  const char* model;               /* folder of a checkpoint, or "synth:..."; null: everything is lent */
  const char* config_json;         /* text of config.json; null: the folder's, or the target's */
  const foretoken_weight* weights; /* come before the folder's */
  size_t num_weights;
  foretoken_target* target; /* not null: its embedding and LM head are shared; its config and files are those of `model` */
} foretoken_drafter_source;

typedef struct foretoken_drafter_options {
  size_t struct_size;
  int64_t max_seq_len;              /* tokens of a sequence; 0: 4096, or the model's context if that is less */
  int32_t max_sequences;            /* that the cache has room for, and that are drafted for at once, 1 .. 64; 0: 1 */
  int32_t max_drafts;               /* of one propose, 1 .. FORETOKEN_MAX_DRAFTS; 0: FORETOKEN_MAX_DRAFTS */
  int32_t prefill_chunk;            /* rows of one pass of prefill; 0: 512 */
  foretoken_dtype kv_dtype;         /* F32, BF16 or E4M3; default BF16 */
  foretoken_dtype activation_dtype; /* of the inputs of linear layers, F32 or BF16; default: the device's best */
  foretoken_dtype prefill_dtype;    /* of those of prefill, F32 or BF16; default: BF16 where the device is faster with it */
  foretoken_norm hidden;            /* which hidden states the caller gives */
  foretoken_norm chain;             /* which of its own the head is fed in a chain */
  foretoken_row_policy rows;
  const char* precision;     /* formats of the head: "bf16", "fp8", "nvfp4"; null or "auto": as stored */
  const char* fc;            /* of mtp.fc likewise */
  const char* experts;       /* of routed experts likewise; null: like `precision` */
  const char* lm_head;       /* "checkpoint" or null: shared, never copied; "auto", "bf16", "fp8", "nvfp4": a copy for drafts */
  const char* draft_vocab;   /* what drafts can be: a number of ids, or a file of ids; null: every token. Copies their rows */
  double confidence_stop;    /* in (0, 1): drafts of a sequence end with the first less probable one; 0: off */
  int32_t log_probabilities; /* not 0: propose can tell them */
} foretoken_drafter_options;

typedef struct foretoken_drafter_info {
  size_t struct_size;
  int64_t hidden_size;
  int64_t vocab_size;
  int64_t max_seq_len;
  int32_t max_sequences;
  int32_t max_drafts;
  int32_t max_batch; /* sequences of one foretoken_propose_batch */
} foretoken_drafter_info;

typedef struct foretoken_drafter_memory {
  size_t struct_size;
  uint64_t lent_bytes;   /* weights of the caller or of a target, in place */
  uint64_t weight_bytes; /* weights in memory of the library */
  uint64_t kv_bytes;     /* the paged cache */
  uint64_t other_bytes;  /* activations, workspaces, metadata */
} foretoken_drafter_memory;

/* Since the drafter was loaded. */
typedef struct foretoken_drafter_statistics {
  size_t struct_size;
  int64_t prefill_rows;
  int64_t rounds; /* proposes that made drafts, once for each sequence */
  int64_t drafted;
  int64_t accepted;
  int64_t accepted_by_position[FORETOKEN_MAX_DRAFTS]; /* [j]: rounds that accepted at least j + 1 drafts */
  double propose_ms;                                  /* time inside propose calls */
} foretoken_drafter_statistics;

/* Loads a draft head. `options` may be null. UNSUPPORTED for a model without a head that can be used, with the reason. */
FORETOKEN_API foretoken_status foretoken_drafter_load(foretoken_device* device, const foretoken_drafter_source* source,
                                                      const foretoken_drafter_options* options, foretoken_drafter** drafter);
FORETOKEN_API foretoken_status foretoken_drafter_free(foretoken_drafter* drafter);
FORETOKEN_API foretoken_status foretoken_drafter_get_info(foretoken_drafter* drafter, foretoken_drafter_info* info);
FORETOKEN_API foretoken_status foretoken_drafter_get_memory(foretoken_drafter* drafter, foretoken_drafter_memory* memory);
FORETOKEN_API foretoken_status foretoken_drafter_get_statistics(foretoken_drafter* drafter,
                                                                foretoken_drafter_statistics* statistics);

/* What was chosen on the caller's behalf and which lent tensors had to be copied, one sentence to a line. Holds while the drafter
 * lives. */
FORETOKEN_API foretoken_status foretoken_drafter_get_notes(foretoken_drafter* drafter, const char** notes);

/* Records what proposes of up to `num_sequences` sequences and `num_drafts` drafts run, for hidden states of `hidden_dtype`, so
 * that the first round is as fast as the tenth. Without it, each shape is recorded when it is first met. */
FORETOKEN_API foretoken_status foretoken_drafter_prepare(foretoken_drafter* drafter, int32_t num_sequences, int32_t num_drafts,
                                                         foretoken_dtype hidden_dtype);

/* An empty sequence with room for `max_tokens` tokens, 1 .. max_seq_len. OUT_OF_MEMORY when the cache is used up. */
FORETOKEN_API foretoken_status foretoken_sequence_create(foretoken_drafter* drafter, int64_t max_tokens,
                                                         foretoken_sequence** sequence);
FORETOKEN_API foretoken_status foretoken_sequence_free(foretoken_sequence* sequence);
/* Rows that the cache holds, and the key of the row that prefill or propose takes next. Either pointer may be null. */
FORETOKEN_API foretoken_status foretoken_sequence_get(foretoken_sequence* sequence, int64_t* num_rows, int64_t* next_key);

/* Takes hidden->num_rows rows in without drafting: next_token_ids[i] is the token that follows hidden state i. Any number of
 * them, in any number of calls. INVALID_STATE while drafts wait for foretoken_sequence_after_verify. */
FORETOKEN_API foretoken_status foretoken_sequence_prefill(foretoken_sequence* sequence, const int32_t* next_token_ids,
                                                          const foretoken_rows* hidden);
/* Leaves the missing rows before `first_key` out: the drafter's context begins there, or has a gap, and drafts may hold less
 * often. */
FORETOKEN_API foretoken_status foretoken_sequence_skip(foretoken_sequence* sequence, int64_t first_key);

/* One sequence of a propose. */
typedef struct foretoken_draft {
  foretoken_sequence* sequence;
  const int32_t* next_token_ids; /* of the rows; the last one is the newest token, which the target has not seen yet */
  foretoken_rows hidden;         /* at least one row */
  int32_t num_drafts;            /* wanted, 0 .. max_drafts; 0: the rows only */
  int32_t* draft_token_ids;      /* [num_drafts], written; null: the drafts stay on the device */
  float* log_probabilities;      /* [num_drafts], written; null: not wanted */
  int32_t num_drafted;           /* written: num_drafts, or fewer with confidence_stop */
} foretoken_draft;

/* Takes the rows of all sequences in and drafts for each, at most max_batch, in one go. A sequence's drafts do not depend on its
 * company. */
FORETOKEN_API foretoken_status foretoken_propose_batch(foretoken_drafter* drafter, foretoken_draft* drafts, size_t num_drafts);
/* The same for one sequence. `num_drafted` may be null. */
FORETOKEN_API foretoken_status foretoken_sequence_propose(foretoken_sequence* sequence, const int32_t* next_token_ids,
                                                          const foretoken_rows* hidden, int32_t num_drafts,
                                                          int32_t* draft_token_ids, int32_t* num_drafted);
/* Where the device has the token ids of the last propose: I32 [max_batch, row_stride]; row b is the newest token of draft b and
 * its drafts. The address is the same for the whole life of the drafter. */
FORETOKEN_API foretoken_status foretoken_drafter_get_device_token_ids(foretoken_drafter* drafter, uint64_t* address,
                                                                      int64_t* row_stride);
/* After the target accepted `num_accepted` of the last propose's drafts; before the next propose of the sequence. */
FORETOKEN_API foretoken_status foretoken_sequence_after_verify(foretoken_sequence* sequence, int32_t num_accepted);

/* Moves the rows out of a sequence, which is empty afterwards. */
FORETOKEN_API foretoken_status foretoken_sequence_take_kv(foretoken_sequence* sequence, foretoken_kv** kv);
/* Moves the rows with keys below `num_keys` into an empty sequence of the same drafter that begins with the same tokens; the rest
 * and the handle are freed. num_keys at most that of foretoken_kv_get. */
FORETOKEN_API foretoken_status foretoken_sequence_install_kv(foretoken_sequence* sequence, foretoken_kv* kv, int64_t num_keys);
FORETOKEN_API foretoken_status foretoken_kv_get(foretoken_kv* kv, int64_t* num_keys);
FORETOKEN_API foretoken_status foretoken_kv_free(foretoken_kv* kv);

#ifdef __cplusplus
}
#endif
/* NOLINTEND(modernize-use-using, modernize-deprecated-headers) */
#endif
