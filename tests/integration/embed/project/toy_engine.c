/* An engine with a target of its own, in C: a toy that counts modulo VOCAB and jumps now and then. It holds a draft head's
 * weights on the device and lends them to the library. The head is made to count, so its drafts hold up to the next jump, and the
 * program knows what must be accepted. Arguments: the selector of a device. */
#include <foretoken.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HIDDEN = 64, VOCAB = 64, HEADS = 1, HEAD_DIM = 32, INNER = 32, DRAFTS = 4, PROMPT = 11, TOKENS = 120, MAX_TOKENS = 256 };

#define CHECK(call)                                                                                           \
  do {                                                                                                        \
    const foretoken_status status = (call);                                                                   \
    if (status != FORETOKEN_OK) fail(#call, foretoken_status_name(status), foretoken_last_error(), __LINE__); \
  } while (0)
#define EXPECT(condition)                                              \
  do {                                                                 \
    if (!(condition)) fail(#condition, "does not hold", "", __LINE__); \
  } while (0)

static void fail(const char* what, const char* how, const char* why, int line) {
  fprintf(stderr, "line %d: %s: %s: %s\n", line, what, how, why);
  exit(1);
}

static const char kConfig[] =
    "{\"model_type\": \"qwen3_5_text\", \"architectures\": [\"Qwen3_5ForCausalLM\"], \"attn_output_gate\": true,"
    " \"eos_token_id\": 63, \"full_attention_interval\": 1, \"head_dim\": 32, \"hidden_act\": \"silu\", \"hidden_size\": 64,"
    " \"intermediate_size\": 32, \"layer_types\": [\"full_attention\"], \"linear_conv_kernel_dim\": 4, \"linear_key_head_dim\": "
    "32,"
    " \"linear_num_key_heads\": 1, \"linear_num_value_heads\": 1, \"linear_value_head_dim\": 32, \"max_position_embeddings\": "
    "1024,"
    " \"mtp_num_hidden_layers\": 1, \"num_attention_heads\": 1, \"num_hidden_layers\": 1, \"num_key_value_heads\": 1,"
    " \"rms_norm_eps\": 1e-6, \"tie_word_embeddings\": false, \"vocab_size\": 64,"
    " \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0, \"partial_rotary_factor\": 0.5}}";

/* The toy target. Its hidden state of a token says which token that is. */

static int32_t target_next(int32_t token, int64_t position) {
  return position % 9 == 8 ? (token + 29) % VOCAB : (token + 1) % VOCAB;
}

static void target_hidden(int32_t token, float* hidden) {
  memset(hidden, 0, HIDDEN * sizeof *hidden);
  hidden[token] = 1.0F;
}

/* A step: picks after each row, hidden states of each, how many drafts held. */
static int32_t target_step(const int32_t* tokens, int32_t num_rows, int64_t position, int32_t* picks, float* hidden,
                           size_t stride) {
  int32_t accepted = 0;
  for (int32_t row = 0; row < num_rows; ++row) {
    picks[row] = target_next(tokens[row], position + row);
    target_hidden(tokens[row], hidden + (size_t)row * stride);
  }
  while (accepted + 1 < num_rows && tokens[accepted + 1] == picks[accepted]) ++accepted;
  return accepted;
}

/* A head that counts. fc keeps the embedding's half and leaves the hidden state out, attention and feed-forward add nothing, and
 * row t + 1 of the LM head looks for token t. */

static uint16_t bf16_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
}

typedef struct matrix {
  const char* name;
  int64_t rows, columns; /* columns 0: a vector */
  int shift;             /* element (n, (n + columns + shift) % columns) is 1, others 0; < -1: all are 0 */
} matrix;

enum { ZERO = -2 };

static const matrix kWeights[] = {
    {"model.embed_tokens.weight", VOCAB, HIDDEN, 0},
    {"lm_head.weight", VOCAB, HIDDEN, -1},
    {"mtp.fc.weight", HIDDEN, 2 * HIDDEN, 0},
    {"mtp.norm.weight", HIDDEN, 0, ZERO},
    {"mtp.pre_fc_norm_embedding.weight", HIDDEN, 0, ZERO},
    {"mtp.pre_fc_norm_hidden.weight", HIDDEN, 0, ZERO},
    {"mtp.layers.0.input_layernorm.weight", HIDDEN, 0, ZERO},
    {"mtp.layers.0.post_attention_layernorm.weight", HIDDEN, 0, ZERO},
    {"mtp.layers.0.self_attn.q_proj.weight", 2 * HEADS* HEAD_DIM, HIDDEN, ZERO},
    {"mtp.layers.0.self_attn.k_proj.weight", HEADS* HEAD_DIM, HIDDEN, ZERO},
    {"mtp.layers.0.self_attn.v_proj.weight", HEADS* HEAD_DIM, HIDDEN, ZERO},
    {"mtp.layers.0.self_attn.o_proj.weight", HIDDEN, HEADS* HEAD_DIM, ZERO},
    {"mtp.layers.0.self_attn.q_norm.weight", HEAD_DIM, 0, ZERO},
    {"mtp.layers.0.self_attn.k_norm.weight", HEAD_DIM, 0, ZERO},
    {"mtp.layers.0.mlp.gate_proj.weight", INNER, HIDDEN, ZERO},
    {"mtp.layers.0.mlp.up_proj.weight", INNER, HIDDEN, ZERO},
    {"mtp.layers.0.mlp.down_proj.weight", HIDDEN, INNER, ZERO},
};
enum { NUM_WEIGHTS = sizeof kWeights / sizeof *kWeights };

static uint64_t weight_bytes(const matrix* weight) {
  return (uint64_t)(weight->rows * (weight->columns == 0 ? 1 : weight->columns)) * sizeof(uint16_t);
}

/* All weights, behind each other in one buffer of the device. */
static foretoken_buffer* upload_weights(foretoken_device* device, foretoken_weight* lent) {
  static uint16_t values[2 * HIDDEN * HIDDEN];
  foretoken_buffer* buffer;
  uint64_t total = 0;
  for (int i = 0; i < NUM_WEIGHTS; ++i) total += (weight_bytes(&kWeights[i]) + 255) / 256 * 256;
  CHECK(foretoken_buffer_create(device, total, &buffer));
  uint64_t offset = 0;
  for (int i = 0; i < NUM_WEIGHTS; ++i) {
    const matrix* weight = &kWeights[i];
    memset(values, 0, sizeof values);
    for (int64_t row = 0; weight->shift != ZERO && row < weight->rows; ++row) {
      const int64_t modulus = weight->shift == 0 ? weight->columns : weight->rows;
      values[row * weight->columns + (row + modulus + weight->shift) % modulus] = bf16_of(1.0F);
    }
    CHECK(foretoken_buffer_upload(buffer, offset, values, weight_bytes(weight)));
    memset(&lent[i], 0, sizeof lent[i]);
    lent[i].name = weight->name;
    lent[i].buffer = buffer;
    lent[i].offset = offset;
    lent[i].dtype = FORETOKEN_BF16;
    lent[i].rank = weight->columns == 0 ? 1 : 2;
    lent[i].shape[0] = weight->rows;
    lent[i].shape[1] = weight->columns;
    offset += (weight_bytes(weight) + 255) / 256 * 256;
  }
  return buffer;
}

/* Where a round's hidden states are kept: in host memory with gaps, or on the device. */
typedef struct states {
  float host[(PROMPT + DRAFTS) * (HIDDEN + 16)];
  size_t stride;
  foretoken_buffer* device; /* null: host memory */
} states;

static foretoken_rows rows_of(states* of, int64_t count) {
  foretoken_rows rows = {.num_rows = count, .row_stride = (int64_t)of->stride, .dtype = FORETOKEN_F32};
  if (of->device == NULL) {
    rows.host = of->host;
  } else {
    CHECK(foretoken_buffer_upload(of->device, 0, of->host, (uint64_t)count * of->stride * sizeof(float)));
    rows.buffer = of->device;
  }
  return rows;
}

/* TOKENS tokens after a prompt, drafted in every round. Returns how many drafts were accepted. */
static int64_t generate(foretoken_sequence* sequence, states* hidden, int32_t* text) {
  int32_t tokens[1 + DRAFTS], picks[PROMPT + DRAFTS], num_drafted;
  int64_t accepted_in_all = 0;
  for (int32_t i = 0; i < PROMPT; ++i) text[i] = i == 0 ? 3 : target_next(text[i - 1], i - 1);
  target_step(text, PROMPT, 0, picks, hidden->host, hidden->stride);
  int64_t length = PROMPT;
  foretoken_rows rows = rows_of(hidden, PROMPT - 1);
  CHECK(foretoken_sequence_prefill(sequence, text + 1, &rows));
  text[length++] = picks[PROMPT - 1];

  /* The row that drafting begins with: the prompt's last token and the one after it. */
  memmove(hidden->host, hidden->host + (PROMPT - 1) * hidden->stride, HIDDEN * sizeof(float));
  int32_t new_tokens = 1;
  while (length < PROMPT + TOKENS) {
    rows = rows_of(hidden, new_tokens);
    tokens[0] = text[length - 1];
    CHECK(foretoken_sequence_propose(sequence, text + length - new_tokens, &rows, DRAFTS, tokens + 1, &num_drafted));
    EXPECT(num_drafted == DRAFTS);
    const int32_t accepted = target_step(tokens, 1 + DRAFTS, length - 1, picks, hidden->host, hidden->stride);
    /* The head counts: its drafts hold up to the target's next jump. */
    int32_t expected = 0;
    while (expected < DRAFTS && (length - 1 + expected) % 9 != 8) ++expected;
    EXPECT(accepted == expected);
    CHECK(foretoken_sequence_after_verify(sequence, accepted));
    new_tokens = accepted + 1;
    for (int32_t i = 0; i < new_tokens; ++i) text[length++] = picks[i];
    accepted_in_all += accepted;
  }
  return accepted_in_all;
}

static void check_text(const int32_t* text) {
  for (int32_t i = 1; i < PROMPT + TOKENS; ++i) EXPECT(text[i] == target_next(text[i - 1], i - 1));
}

int main(int argc, char** argv) {
  const char* selector = argc > 1 ? argv[1] : "cpu";
  foretoken_device* device;
  foretoken_drafter* drafter;
  foretoken_sequence *first, *second;
  foretoken_weight lent[NUM_WEIGHTS];
  static states hidden;
  static int32_t text[PROMPT + TOKENS + DRAFTS + 1];

  CHECK(foretoken_device_open(selector, NULL, &device));
  foretoken_device_info info = {.struct_size = sizeof info};
  CHECK(foretoken_device_get_info(device, &info));
  foretoken_buffer* weights = upload_weights(device, lent);
  uint64_t before, after;
  CHECK(foretoken_device_allocated_bytes(device, &before));

  foretoken_drafter_source source = {
      .struct_size = sizeof source, .config_json = kConfig, .weights = lent, .num_weights = NUM_WEIGHTS};
  foretoken_drafter_options options = {
      .struct_size = sizeof options, .max_seq_len = MAX_TOKENS, .max_sequences = 2, .max_drafts = DRAFTS};
  CHECK(foretoken_drafter_load(device, &source, &options, &drafter));
  foretoken_drafter_memory memory = {.struct_size = sizeof memory};
  CHECK(foretoken_drafter_get_memory(drafter, &memory));
  EXPECT(memory.lent_bytes >= 2 * (uint64_t)VOCAB * HIDDEN * sizeof(uint16_t)); /* at least the embedding and the LM head */
  EXPECT(memory.weight_bytes < 16 * 1024);                                      /* norms only, in float32 */

  /* Host memory with gaps between rows, then device memory. */
  hidden.stride = HIDDEN + 16;
  CHECK(foretoken_sequence_create(drafter, MAX_TOKENS, &first));
  const int64_t accepted = generate(first, &hidden, text);
  check_text(text);
  hidden.stride = HIDDEN;
  CHECK(foretoken_buffer_create(device, sizeof hidden.host, &hidden.device));
  CHECK(foretoken_sequence_create(drafter, MAX_TOKENS, &second));
  EXPECT(generate(second, &hidden, text) == accepted);
  check_text(text);

  /* A finished turn's rows are adopted by another sequence. */
  foretoken_kv* kv;
  int64_t num_keys, next_key;
  CHECK(foretoken_sequence_take_kv(first, &kv));
  CHECK(foretoken_kv_get(kv, &num_keys));
  EXPECT(num_keys > PROMPT);
  CHECK(foretoken_sequence_install_kv(first, kv, PROMPT));
  CHECK(foretoken_sequence_get(first, NULL, &next_key));
  EXPECT(next_key == PROMPT);

  foretoken_drafter_statistics statistics = {.struct_size = sizeof statistics};
  CHECK(foretoken_drafter_get_statistics(drafter, &statistics));
  EXPECT(statistics.accepted == 2 * accepted && statistics.drafted == statistics.rounds * DRAFTS);

  CHECK(foretoken_sequence_free(first));
  CHECK(foretoken_sequence_free(second));
  CHECK(foretoken_drafter_free(drafter));
  CHECK(foretoken_buffer_free(hidden.device));
  CHECK(foretoken_device_allocated_bytes(device, &after));
  EXPECT(after == before);
  CHECK(foretoken_buffer_free(weights));
  CHECK(foretoken_device_close(device));
  printf("toy engine on %s: %" PRId64 " drafts accepted, text exact\n", info.name, accepted);
  return 0;
}
