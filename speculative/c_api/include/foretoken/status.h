/* What every call of the C API gives back. C99; also C++.
 *
 * Rules of the whole API
 * - Handles are opaque. A handle that is null, was freed, or is of another kind is FORETOKEN_INVALID_HANDLE, never a crash.
 * Freeing null does nothing.
 * - An object lives until its handle is freed and nothing made from it is left: a device may be closed before its drafters.
 * - Structures that may grow begin with struct_size. Set it to the size of the structure and everything else to zero, which is
 *   each option's default: foretoken_drafter_options options = {.struct_size = sizeof(foretoken_drafter_options)};
 * - A call that fails changes nothing and writes no result; foretoken_last_error says why.
 * - Any thread may call anything. Calls on one device and on what was made from it run one after another; those on different
 *   devices side by side. A handle may be freed while another thread uses it: that call ends first.
 * - No exception leaves a call, and none may leave a callback.
 * - Text is UTF-8. Pointers that are passed in are read during the call only, unless something else is said. */
#ifndef FORETOKEN_STATUS_H
#define FORETOKEN_STATUS_H
/* NOLINTBEGIN(modernize-use-using, modernize-deprecated-headers): C reads this too */

#ifdef __GNUC__
#define FORETOKEN_API __attribute__((visibility("default")))
#else
#define FORETOKEN_API
#endif

/* Enumerations are an int in C++ too, so that a number which none of their names has is an error and not undefined. */
#ifdef __cplusplus
#define FORETOKEN_ENUM : int
extern "C" {
#else
#define FORETOKEN_ENUM
#endif

typedef enum foretoken_status FORETOKEN_ENUM {
  FORETOKEN_OK = 0,
  FORETOKEN_INVALID_ARGUMENT = 1, /* a value is wrong */
  FORETOKEN_UNSUPPORTED = 2,      /* right in itself, but this device or build cannot do it */
  FORETOKEN_OUT_OF_MEMORY = 3,
  FORETOKEN_DEVICE_ERROR = 4,   /* a call of the device's driver failed */
  FORETOKEN_FORMAT_ERROR = 5,   /* a file is wrong: file, tensor and byte offset are in the message */
  FORETOKEN_INVALID_STATE = 6,  /* the call is not allowed now */
  FORETOKEN_INVALID_HANDLE = 7, /* null, freed, or of another kind */
  FORETOKEN_INTERNAL_ERROR = 8  /* a bug of the library */
} foretoken_status;

/* What was wrong with the last call of this thread that failed, in one line; "" before there was one. Holds until the next. */
FORETOKEN_API const char* foretoken_last_error(void);

/* "ok", "invalid argument", ...; "unknown status" for other numbers. Never null, holds for ever. */
FORETOKEN_API const char* foretoken_status_name(foretoken_status status);

/* Version of the library that runs, "0.1.0". Holds for ever. */
FORETOKEN_API const char* foretoken_version(void);

#ifdef __cplusplus
}
#endif
/* NOLINTEND(modernize-use-using, modernize-deprecated-headers) */
#endif
