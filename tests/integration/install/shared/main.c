/* A C program outside the source tree: opens the device that it is told and continues tokens with the bundled checkpoint. */
#include <foretoken.h>
#include <stdio.h>

static int failed(foretoken_status status) {
  if (status == FORETOKEN_OK) return 0;
  fprintf(stderr, "%s: %s\n", foretoken_status_name(status), foretoken_last_error());
  return 1;
}

int main(int argc, char** argv) {
  const int32_t prompt[] = {1, 2, 3};
  foretoken_device* device = NULL;
  foretoken_engine* engine = NULL;
  foretoken_result* result = NULL;
  foretoken_request request = {.struct_size = sizeof(foretoken_request), .max_tokens = 4};
  foretoken_result_info info = {.struct_size = sizeof(foretoken_result_info)};
  if (failed(foretoken_device_open(argc > 1 ? argv[1] : "cpu", NULL, &device))) return 1;
  if (failed(foretoken_engine_load(device, NULL, &engine))) return 1;
  if (failed(foretoken_engine_generate(engine, prompt, 3, &request, &result))) return 1;
  if (failed(foretoken_result_get(result, &info))) return 1;
  printf("foretoken %s:", foretoken_version());
  for (size_t i = 0; i < info.num_token_ids; ++i) printf(" %d", (int)info.token_ids[i]);
  printf("\n");
  return failed(foretoken_result_free(result)) + failed(foretoken_engine_free(engine)) + failed(foretoken_device_close(device));
}
