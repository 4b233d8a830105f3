/* Prints the selectors of the devices that can be opened, separated by semicolons: the first of each backend. */
#include <foretoken.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  size_t count;
  if (foretoken_device_count(&count) != FORETOKEN_OK) return 1;
  for (size_t i = 0; i < count; ++i) {
    foretoken_device_info info = {.struct_size = sizeof info};
    if (foretoken_device_describe(i, &info) != FORETOKEN_OK) return 1;
    const char* colon = strchr(info.selector, ':');
    if (info.unavailable[0] != '\0' || (colon != NULL && strcmp(colon, ":0") != 0)) continue;
    printf("%s;", info.selector);
  }
  return 0;
}
