/* Every call with handles that are null, stale, of another kind and of no kind at all, and with null in place of what it writes
 * or reads: each must give an error with a message, and none may crash. Arguments: the selector of a device, the folder of a
 * checkpoint. */
#include <foretoken.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int num_failures = 0;
static int num_calls = 0;

static void expect(foretoken_status status, foretoken_status expected, const char* call, const char* with) {
  ++num_calls;
  if (status == expected && foretoken_last_error()[0] != '\0') return;
  ++num_failures;
  fprintf(stderr, "%s with %s: expected '%s', got '%s': %s\n", call, with, foretoken_status_name(expected),
          foretoken_status_name(status), foretoken_last_error());
}

static void must(foretoken_status status, const char* call) {
  if (status == FORETOKEN_OK) return;
  fprintf(stderr, "%s: %s\n", call, foretoken_last_error());
  exit(1);
}
#define MUST(call) must((call), #call)

#define HANDLE FORETOKEN_INVALID_HANDLE
#define ARGUMENT FORETOKEN_INVALID_ARGUMENT

/* One call with each of the bad handles; `h` stands for the handle. */
#define EACH(type, call)                                        \
  do {                                                          \
    for (int i = 0; i < 4; ++i) {                               \
      type* h = (type*)bad.handles[i];                          \
      if (i == 0 && strstr(#call, "_free(") != NULL) continue;  \
      if (i == 0 && strstr(#call, "_close(") != NULL) continue; \
      expect((call), HANDLE, #call, bad.names[i]);              \
    }                                                           \
  } while (0)

typedef struct bad_handles {
  void* handles[4];
  const char* names[4];
} bad_handles;

static int32_t ids[16] = {1, 2, 3};
static float states[16 * 4096];

static void bad_devices(const bad_handles bad) {
  size_t count;
  uint64_t number;
  foretoken_buffer* buffer;
  foretoken_device_info info = {.struct_size = sizeof info};
  foretoken_native_memory memory = {.struct_size = sizeof memory, .handle = (uint64_t)(uintptr_t)states, .bytes = 64};
  foretoken_drafter_source source = {.struct_size = sizeof source, .config_json = "{}"};
  foretoken_drafter* drafter;
  foretoken_target* target;
  foretoken_engine* engine;
  EACH(foretoken_device, foretoken_device_close(h));
  EACH(foretoken_device, foretoken_device_get_info(h, &info));
  EACH(foretoken_device, foretoken_device_allocated_bytes(h, &number));
  EACH(foretoken_device, foretoken_device_synchronize(h));
  EACH(foretoken_device, foretoken_buffer_create(h, 64, &buffer));
  EACH(foretoken_device, foretoken_buffer_adopt(h, &memory, &buffer));
  EACH(foretoken_device, foretoken_drafter_load(h, &source, NULL, &drafter));
  EACH(foretoken_device, foretoken_target_load(h, NULL, NULL, &target));
  EACH(foretoken_device, foretoken_engine_load(h, NULL, &engine));
  EACH(foretoken_buffer, foretoken_buffer_free(h));
  EACH(foretoken_buffer, foretoken_buffer_get(h, &number, NULL));
  EACH(foretoken_buffer, foretoken_buffer_get_native(h, &memory));
  EACH(foretoken_buffer, foretoken_buffer_upload(h, 0, ids, 4));
  EACH(foretoken_buffer, foretoken_buffer_download(h, 0, ids, 4));
  expect(foretoken_device_count(NULL), ARGUMENT, "foretoken_device_count", "null");
  MUST(foretoken_device_count(&count));
  expect(foretoken_device_describe(count, &info), ARGUMENT, "foretoken_device_describe", "an index past the end");
  expect(foretoken_device_describe(0, NULL), ARGUMENT, "foretoken_device_describe", "null");
}

static void bad_drafters(const bad_handles bad) {
  const foretoken_rows rows = {.host = states, .num_rows = 1, .dtype = FORETOKEN_F32};
  foretoken_drafter_info info = {.struct_size = sizeof info};
  foretoken_drafter_memory memory = {.struct_size = sizeof memory};
  foretoken_drafter_statistics statistics = {.struct_size = sizeof statistics};
  foretoken_draft draft = {.next_token_ids = ids, .hidden = rows};
  foretoken_sequence* sequence;
  foretoken_kv* kv;
  const char* text;
  uint64_t address;
  int64_t number;
  int32_t drafted;
  EACH(foretoken_drafter, foretoken_drafter_free(h));
  EACH(foretoken_drafter, foretoken_drafter_get_info(h, &info));
  EACH(foretoken_drafter, foretoken_drafter_get_memory(h, &memory));
  EACH(foretoken_drafter, foretoken_drafter_get_statistics(h, &statistics));
  EACH(foretoken_drafter, foretoken_drafter_get_notes(h, &text));
  EACH(foretoken_drafter, foretoken_drafter_prepare(h, 1, 1, FORETOKEN_F32));
  EACH(foretoken_drafter, foretoken_drafter_get_device_token_ids(h, &address, &number));
  EACH(foretoken_drafter, foretoken_sequence_create(h, 8, &sequence));
  EACH(foretoken_drafter, foretoken_propose_batch(h, &draft, 1));
  EACH(foretoken_sequence, foretoken_sequence_free(h));
  EACH(foretoken_sequence, foretoken_sequence_get(h, &number, &number));
  EACH(foretoken_sequence, foretoken_sequence_prefill(h, ids, &rows));
  EACH(foretoken_sequence, foretoken_sequence_skip(h, 1));
  EACH(foretoken_sequence, foretoken_sequence_propose(h, ids, &rows, 1, ids, &drafted));
  EACH(foretoken_sequence, foretoken_sequence_after_verify(h, 0));
  EACH(foretoken_sequence, foretoken_sequence_take_kv(h, &kv));
  EACH(foretoken_sequence, foretoken_sequence_install_kv(h, (foretoken_kv*)bad.handles[i], 0));
  EACH(foretoken_kv, foretoken_kv_get(h, &number));
  EACH(foretoken_kv, foretoken_kv_free(h));
}

static void bad_targets(const bad_handles bad) {
  foretoken_target_info info = {.struct_size = sizeof info};
  foretoken_target_sequence* sequence;
  foretoken_step step = {.token_ids = ids, .num_rows = 1, .picks = ids};
  foretoken_rows rows;
  int64_t number;
  EACH(foretoken_target, foretoken_target_free(h));
  EACH(foretoken_target, foretoken_target_get_info(h, &info));
  EACH(foretoken_target, foretoken_target_sequence_create(h, 8, &sequence));
  EACH(foretoken_target, foretoken_target_step(h, &step, 1));
  EACH(foretoken_target_sequence, foretoken_target_sequence_free(h));
  EACH(foretoken_target_sequence, foretoken_target_sequence_get(h, &number));
  EACH(foretoken_target_sequence, foretoken_target_prefill(h, ids, 1, &number, &rows));
  EACH(foretoken_target_sequence, foretoken_target_finish_prefill(h, ids, &rows));
}

static void bad_engines(const bad_handles bad) {
  foretoken_engine_info info = {.struct_size = sizeof info};
  foretoken_engine_statistics statistics = {.struct_size = sizeof statistics};
  foretoken_result_info result_info = {.struct_size = sizeof result_info};
  foretoken_result* result;
  const char* text;
  size_t count;
  int64_t id;
  int32_t flag;
  EACH(foretoken_engine, foretoken_engine_free(h));
  EACH(foretoken_engine, foretoken_engine_get_info(h, &info));
  EACH(foretoken_engine, foretoken_engine_get_statistics(h, &statistics));
  EACH(foretoken_engine, foretoken_engine_get_notes(h, &text));
  EACH(foretoken_engine, foretoken_engine_tokenize(h, "a", FORETOKEN_TEXT_PLAIN, ids, 1, &count));
  EACH(foretoken_engine, foretoken_engine_submit(h, ids, 1, NULL, &id));
  EACH(foretoken_engine, foretoken_engine_step(h, &flag));
  EACH(foretoken_engine, foretoken_engine_cancel(h, 1));
  EACH(foretoken_engine, foretoken_engine_is_finished(h, 1, &flag));
  EACH(foretoken_engine, foretoken_engine_take_result(h, 1, &result));
  EACH(foretoken_engine, foretoken_engine_generate(h, ids, 1, NULL, &result));
  EACH(foretoken_result, foretoken_result_get(h, &result_info));
  EACH(foretoken_result, foretoken_result_free(h));
}

/* Good handles, bad everything else. */
static void bad_arguments(foretoken_device* device, const char* model) {
  foretoken_device* none;
  foretoken_device_options no_size = {.struct_size = 0};
  foretoken_device_options stream = {.struct_size = sizeof stream, .native_stream = states};
  expect(foretoken_device_open("nothing:0", NULL, &none), ARGUMENT, "foretoken_device_open", "an unknown name");
  expect(foretoken_device_open("cpu", NULL, NULL), ARGUMENT, "foretoken_device_open", "null");
  expect(foretoken_device_open("cpu", &no_size, &none), ARGUMENT, "foretoken_device_open", "a structure without a size");
  expect(foretoken_device_open("cpu", &stream, &none), ARGUMENT, "foretoken_device_open", "a stream that is not to be adopted");

  foretoken_buffer *buffer, *other;
  MUST(foretoken_buffer_create(device, 256, &buffer));
  expect(foretoken_buffer_create(device, 0, &other), ARGUMENT, "foretoken_buffer_create", "no bytes");
  expect(foretoken_buffer_upload(buffer, 255, ids, 4), ARGUMENT, "foretoken_buffer_upload", "bytes past the end");
  expect(foretoken_buffer_upload(buffer, UINT64_MAX, ids, 4), ARGUMENT, "foretoken_buffer_upload", "an offset past the end");
  expect(foretoken_buffer_download(buffer, 0, NULL, 4), ARGUMENT, "foretoken_buffer_download", "null");

  foretoken_target* target;
  expect(foretoken_target_load(device, "/no/such/folder", NULL, &target), ARGUMENT, "foretoken_target_load", "no folder");
  MUST(foretoken_target_load(device, model, NULL, &target));
  foretoken_drafter* drafter;
  foretoken_drafter_source source = {.struct_size = sizeof source};
  expect(foretoken_drafter_load(device, &source, NULL, &drafter), ARGUMENT, "foretoken_drafter_load", "an empty source");
  source.target = target;
  foretoken_drafter_options options = {.struct_size = sizeof options, .max_drafts = 99};
  expect(foretoken_drafter_load(device, &source, &options, &drafter), ARGUMENT, "foretoken_drafter_load", "too many drafts");
  options = (foretoken_drafter_options){.struct_size = sizeof options, .precision = "fp3"};
  expect(foretoken_drafter_load(device, &source, &options, &drafter), ARGUMENT, "foretoken_drafter_load", "an unknown precision");
  foretoken_weight weight = {
      .name = "mtp.fc.weight", .buffer = buffer, .dtype = FORETOKEN_BF16, .rank = 2, .shape = {4096, 4096}};
  source.weights = &weight;
  source.num_weights = 1;
  expect(foretoken_drafter_load(device, &source, NULL, &drafter), ARGUMENT, "foretoken_drafter_load", "a weight past its buffer");
  source.num_weights = 0;
  MUST(foretoken_drafter_load(device, &source, NULL, &drafter));

  foretoken_sequence* sequence;
  expect(foretoken_sequence_create(drafter, 0, &sequence), ARGUMENT, "foretoken_sequence_create", "no tokens");
  MUST(foretoken_sequence_create(drafter, 8, &sequence));
  foretoken_rows rows = {.host = states, .num_rows = 2, .dtype = FORETOKEN_F32};
  const int32_t bad_ids[2] = {1, -1};
  int32_t drafts[16];
  expect(foretoken_sequence_propose(sequence, bad_ids, &rows, 2, drafts, NULL), ARGUMENT, "foretoken_sequence_propose",
         "a bad id");
  expect(foretoken_sequence_propose(sequence, ids, &rows, 16, drafts, NULL), ARGUMENT, "foretoken_sequence_propose", "16 drafts");
  rows.num_rows = 9;
  expect(foretoken_sequence_prefill(sequence, ids, &rows), ARGUMENT, "foretoken_sequence_prefill", "more rows than tokens");
  rows.num_rows = 2;
  rows.dtype = FORETOKEN_I32;
  expect(foretoken_sequence_prefill(sequence, ids, &rows), ARGUMENT, "foretoken_sequence_prefill", "hidden states of integers");
  rows.dtype = FORETOKEN_F32;
  rows.row_stride = 1;
  expect(foretoken_sequence_prefill(sequence, ids, &rows), ARGUMENT, "foretoken_sequence_prefill", "rows that overlap");
  rows.row_stride = 0;
  rows.buffer = buffer;
  expect(foretoken_sequence_prefill(sequence, ids, &rows), ARGUMENT, "foretoken_sequence_prefill", "two places");
  rows.host = NULL;
  expect(foretoken_sequence_prefill(sequence, ids, &rows), ARGUMENT, "foretoken_sequence_prefill", "a small buffer");
  rows = (foretoken_rows){.host = states, .num_rows = 1, .dtype = FORETOKEN_F32};
  MUST(foretoken_sequence_propose(sequence, ids, &rows, 2, drafts, NULL));
  expect(foretoken_sequence_propose(sequence, ids, &rows, 2, drafts, NULL), FORETOKEN_INVALID_STATE, "foretoken_sequence_propose",
         "drafts without a verdict");
  expect(foretoken_sequence_after_verify(sequence, 3), ARGUMENT, "foretoken_sequence_after_verify", "more than were drafted");
  MUST(foretoken_sequence_after_verify(sequence, 1));
  expect(foretoken_sequence_skip(sequence, 0), ARGUMENT, "foretoken_sequence_skip", "rows that are there");

  /* Everything goes on after all that, and a device may be closed before what was made from it. */
  foretoken_target_sequence* target_sequence;
  int64_t taken;
  foretoken_step step = {.token_ids = ids, .num_rows = 1, .picks = drafts};
  MUST(foretoken_target_sequence_create(target, 8, &target_sequence));
  expect(foretoken_target_finish_prefill(target_sequence, drafts, &rows), FORETOKEN_INVALID_STATE,
         "foretoken_target_finish_prefill", "no prefill before");
  MUST(foretoken_target_prefill(target_sequence, ids, 3, &taken, &rows));
  expect(foretoken_buffer_free(rows.buffer), ARGUMENT, "foretoken_buffer_free", "hidden states of a target");
  step.sequence = target_sequence;
  foretoken_step twice[2] = {step, step};
  expect(foretoken_target_step(target, twice, 2), ARGUMENT, "foretoken_target_step", "more sequences than there can be");
  MUST(foretoken_target_step(target, &step, 1));
  rows = step.hidden;
  MUST(foretoken_target_sequence_free(target_sequence));
  MUST(foretoken_target_free(target));
  MUST(foretoken_drafter_free(drafter));
  MUST(foretoken_sequence_propose(sequence, ids, &(foretoken_rows){.host = states, .num_rows = 1, .dtype = FORETOKEN_F32}, 1,
                                  drafts, NULL));
  MUST(foretoken_sequence_free(sequence));
  expect(foretoken_buffer_get(rows.buffer, NULL, NULL), HANDLE, "foretoken_buffer_get", "hidden states of a target that is gone");
  MUST(foretoken_buffer_free(buffer));
}

int main(int argc, char** argv) {
  foretoken_device* device;
  foretoken_buffer* buffer;
  MUST(foretoken_device_open(argc > 1 ? argv[1] : "cpu", NULL, &device));
  if (foretoken_status_name((foretoken_status)99) == NULL || foretoken_version()[0] == '\0') return 1;

  /* Null, a freed one, one of another kind, and an address that is no handle. Kinds: what takes a buffer is given the device. */
  MUST(foretoken_buffer_create(device, 64, &buffer));
  MUST(foretoken_buffer_free(buffer));
  int on_stack = 0;
  bad_handles bad = {{NULL, buffer, device, &on_stack}, {"null", "a stale handle", "a handle of another kind", "an address"}};
  bad_drafters(bad);
  bad_targets(bad);
  bad_engines(bad);
  MUST(foretoken_buffer_create(device, 64, &buffer));
  foretoken_device* closed;
  MUST(foretoken_device_open("cpu", NULL, &closed));
  MUST(foretoken_device_close(closed));
  bad.handles[1] = closed;
  /* Of another kind for calls on devices is the buffer, for calls on buffers the device: the first four kinds are told apart
   * below. */
  bad.handles[2] = &on_stack;
  bad_devices(bad);
  expect(foretoken_device_synchronize((foretoken_device*)buffer), HANDLE, "foretoken_device_synchronize", "a buffer");
  expect(foretoken_buffer_get((foretoken_buffer*)device, NULL, NULL), HANDLE, "foretoken_buffer_get", "a device");
  bad_arguments(device, argc > 2 ? argv[2] : NULL);
  MUST(foretoken_device_close(device));
  MUST(foretoken_buffer_free(buffer));
  printf("%d bad calls, %d of them not refused as they should be\n", num_calls, num_failures);
  return num_failures == 0 ? 0 : 1;
}
