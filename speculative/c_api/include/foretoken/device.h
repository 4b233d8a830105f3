/* Devices and their memory. */
#ifndef FORETOKEN_DEVICE_H
#define FORETOKEN_DEVICE_H
/* NOLINTBEGIN(modernize-use-using, modernize-deprecated-headers): C reads this too */

#include <stddef.h>
#include <stdint.h>

#include "foretoken/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct foretoken_device foretoken_device; /* an opened device, with the stream on which everything of it runs */
typedef struct foretoken_buffer foretoken_buffer; /* memory of a device: the library's or the caller's */

typedef enum foretoken_device_kind FORETOKEN_ENUM {
  FORETOKEN_DEVICE_CPU = 0,
  FORETOKEN_DEVICE_INTEGRATED_GPU = 1,
  FORETOKEN_DEVICE_DISCRETE_GPU = 2,
  FORETOKEN_DEVICE_OTHER = 3
} foretoken_device_kind;

/* Element types. In options, 0 is the default that the option names. */
typedef enum foretoken_dtype FORETOKEN_ENUM {
  FORETOKEN_DTYPE_DEFAULT = 0,
  FORETOKEN_F32 = 1,
  FORETOKEN_BF16 = 2,
  FORETOKEN_E4M3 = 3, /* FP8 */
  FORETOKEN_E2M1 = 4, /* FP4, two to a byte, the low nibble first */
  FORETOKEN_I32 = 5,
  FORETOKEN_I64 = 6,
  FORETOKEN_U8 = 7
} foretoken_dtype;

/* A device as found at start-up, or a backend that has none. Texts end with a zero; longer ones are cut. */
typedef struct foretoken_device_info {
  size_t struct_size;
  char selector[32];     /* what foretoken_device_open takes: "cpu", "cuda:0", ... */
  char name[256];        /* as its maker calls it; "" for a backend without devices */
  char driver[64];       /* may be "" */
  char unavailable[512]; /* why it cannot be opened; "" when it can */
  foretoken_device_kind kind;
  uint64_t total_memory_bytes;
} foretoken_device_info;

/* How many entries foretoken_device_describe knows. */
FORETOKEN_API foretoken_status foretoken_device_count(size_t* count);
/* Entry `index`, 0 .. count - 1: every device of every backend, and every backend without one. */
FORETOKEN_API foretoken_status foretoken_device_describe(size_t index, foretoken_device_info* info);

/* A Vulkan device that the caller has made, as handles of Vulkan's API cast to pointers. They stay the caller's and must outlive
 * the foretoken_device and all that is made from it. Vulkan 1.2; the features shaderInt64, storageBuffer16BitAccess,
 * storageBuffer8BitAccess, bufferDeviceAddress, timelineSemaphore and scalarBlockLayout must be enabled; subgroupSizeControl and
 * computeFullSubgroups make it faster. The queue is used inside calls of this library only: a caller that uses it in another
 * thread meanwhile gives both lock functions. Work runs behind what was submitted before, and before what is submitted after a
 * call. */
typedef struct foretoken_vulkan_device {
  size_t struct_size;
  void* get_instance_proc_addr; /* PFN_vkGetInstanceProcAddr */
  void* instance;               /* VkInstance */
  void* physical_device;        /* VkPhysicalDevice */
  void* device;                 /* VkDevice */
  void* queue;                  /* VkQueue, with compute */
  uint32_t queue_family_index;
  uint32_t api_version;           /* VkApplicationInfo::apiVersion of the instance */
  const void* device_create_info; /* the VkDeviceCreateInfo that the device was made with: read while it is opened */
  void (*lock_queue)(void* user); /* both or neither */
  void (*unlock_queue)(void* user);
  void* user;
} foretoken_vulkan_device;

/* An adopted stream is one of the device's primary context; null is the legacy default stream. Work is ordered in it both ways,
 * and calls that wait also wait for the caller's. While the caller captures it into a graph, every call is INVALID_STATE, and
 * nothing may be freed. */
typedef struct foretoken_device_options {
  size_t struct_size;
  int32_t num_threads;                   /* of the CPU's pool; 0: one per core that the process may use */
  int32_t adopt_stream;                  /* not 0: work runs on native_stream, in order with the caller's own */
  void* native_stream;                   /* cudaStream_t or hipStream_t of this device, which must outlive it */
  const foretoken_vulkan_device* vulkan; /* not null: this device instead of one of the library's own; the selector is "vulkan" */
} foretoken_device_options;

/* Opens "auto" (the first usable GPU of cuda, hip, vulkan, else the CPU), "cpu", "cuda", "cuda:1", "vulkan:0", "vulkan:" and part
 * of a device's name, ...; null or "": the environment variable FORETOKEN_BACKEND, else "auto". `options` may be null.
 * INVALID_ARGUMENT for a name that is not there, UNSUPPORTED with the reason for one that cannot run. */
FORETOKEN_API foretoken_status foretoken_device_open(const char* selector, const foretoken_device_options* options,
                                                     foretoken_device** device);
/* Gives the handle back. */
FORETOKEN_API foretoken_status foretoken_device_close(foretoken_device* device);
/* The device that was opened; its selector names the backend alone. */
FORETOKEN_API foretoken_status foretoken_device_get_info(foretoken_device* device, foretoken_device_info* info);
/* Bytes that the library holds on the device now; memory of the caller does not count. */
FORETOKEN_API foretoken_status foretoken_device_allocated_bytes(foretoken_device* device, uint64_t* bytes);
/* Waits until the device has done everything. DEVICE_ERROR when something failed. */
FORETOKEN_API foretoken_status foretoken_device_synchronize(foretoken_device* device);

/* `bytes` bytes of the caller's memory from byte `offset` on, a multiple of 16. Vulkan: the buffer has the usages TRANSFER_SRC,
 * TRANSFER_DST, STORAGE_BUFFER and SHADER_DEVICE_ADDRESS and belongs to the adopted device. */
typedef struct foretoken_native_memory {
  size_t struct_size;
  uint64_t handle; /* CPU, CUDA, HIP: the pointer. Vulkan: the VkBuffer */
  uint64_t offset;
  uint64_t bytes;
} foretoken_native_memory;

/* New memory on the device, contents undefined. */
FORETOKEN_API foretoken_status foretoken_buffer_create(foretoken_device* device, uint64_t bytes, foretoken_buffer** buffer);
/* A view of memory that stays the caller's and must outlive the handle and whatever was loaded from it. */
FORETOKEN_API foretoken_status foretoken_buffer_adopt(foretoken_device* device, const foretoken_native_memory* memory,
                                                      foretoken_buffer** buffer);
FORETOKEN_API foretoken_status foretoken_buffer_free(foretoken_buffer* buffer);
/* Bytes of the buffer, and where it lies: what kernels add offsets to. Either pointer may be null. */
FORETOKEN_API foretoken_status foretoken_buffer_get(foretoken_buffer* buffer, uint64_t* bytes, uint64_t* address);
/* The same memory as the device's own API knows it, for kernels of the caller; foretoken_buffer_adopt takes it back. */
FORETOKEN_API foretoken_status foretoken_buffer_get_native(foretoken_buffer* buffer, foretoken_native_memory* memory);
/* Host to device: `bytes` bytes to `offset`. `source` may be reused when the call returns. */
FORETOKEN_API foretoken_status foretoken_buffer_upload(foretoken_buffer* buffer, uint64_t offset, const void* source,
                                                       uint64_t bytes);
/* Device to host; waits. */
FORETOKEN_API foretoken_status foretoken_buffer_download(foretoken_buffer* buffer, uint64_t offset, void* destination,
                                                         uint64_t bytes);

/* Rows of hidden states, [num_rows, hidden_size] F32 or BF16, in host memory or on the device: exactly one of `host` and `buffer`
 * is set. Device memory is read in the order of the device's stream: on an adopted one after what the caller put there before,
 * else the caller must have finished writing. */
typedef struct foretoken_rows {
  const void* host;
  foretoken_buffer* buffer;
  uint64_t offset; /* bytes to the first row */
  int64_t num_rows;
  int64_t row_stride; /* elements from one row to the next; 0: hidden_size */
  foretoken_dtype dtype;
} foretoken_rows;

#ifdef __cplusplus
}
#endif
/* NOLINTEND(modernize-use-using, modernize-deprecated-headers) */
#endif
