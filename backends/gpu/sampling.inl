// argmax, select_tokens, accept_drafts, embedding, random_fill, and the fill of command lists.
#pragma once

#include "backends/gpu/memory_params.h"
#include "backends/gpu/numeric.inl"
#include "backends/gpu/sampling_params.h"
#include "core/ops/random_fill.h"

namespace foretoken::gpu {
namespace {

__global__ void __launch_bounds__(kArgmaxThreads) argmax(const ArgmaxParams p) {
  begin_kernel();
  __shared__ Candidate warps[kArgmaxThreads / kLanes];
  const float* logits = pointer<const float>(p.logits) + blockIdx.x * p.logits_stride;
  Candidate best{0.0F, -1};
#pragma unroll 4
  for (uint64_t v = threadIdx.x; v < p.vocab_size; v += kArgmaxThreads) {
    best = better(best, candidate_of(logits[v], static_cast<int32_t>(v)));
  }
  best = lane_best(best);
  if (threadIdx.x % kLanes == 0) warps[threadIdx.x / kLanes] = best;
  __syncthreads();
  if (threadIdx.x >= kLanes) return;
  best = lane_best(warps[threadIdx.x]);
  if (threadIdx.x == 0) pointer<int32_t>(p.token_ids)[blockIdx.x] = best.index < 0 ? 0 : best.index;
}

__global__ void __launch_bounds__(kTokenThreads) select_tokens(const SelectTokensParams p) {
  begin_kernel();
  const uint32_t t = blockIdx.x * kTokenThreads + threadIdx.x;
  if (t >= p.num_tokens) return;
  const int32_t host_id = pointer<const int32_t>(p.host_token_ids)[t];
  const int32_t row = pointer<const int32_t>(p.source_rows)[t];
  const bool exists = row >= 0 && static_cast<uint32_t>(row) < p.num_sources;
  const int32_t device_id = exists ? pointer<const int32_t>(p.source)[row] : -1;
  pointer<int32_t>(p.token_ids)[t] = host_id >= 0 ? host_id : device_id;
}

__global__ void __launch_bounds__(kTokenThreads) accept_drafts(const AcceptDraftsParams p) {
  begin_kernel();
  const uint64_t b = uint64_t{blockIdx.x} * kTokenThreads + threadIdx.x;
  if (b >= p.num_sequences) return;
  const int32_t first = pointer<const int32_t>(p.query_start_loc)[b];
  const int32_t num_drafts = pointer<const int32_t>(p.query_start_loc)[b + 1] - first - 1;
  const auto* drafts = pointer<const int32_t>(p.token_ids) + first + 1;
  const auto* targets = pointer<const int32_t>(p.target_token_ids) + first;
  int32_t accepted = 0;
  while (accepted < num_drafts && drafts[accepted] == targets[accepted]) ++accepted;
  pointer<int32_t>(p.num_accepted)[b] = accepted;
}

__global__ void __launch_bounds__(kEmbeddingThreads) embedding(const EmbeddingParams p) {
  begin_kernel();
  const int32_t id = pointer<const int32_t>(p.ids)[blockIdx.x];
  const bool known = id >= 0 && static_cast<uint32_t>(id) < p.vocab_size;
  const uint64_t source = known ? static_cast<uint64_t>(id) * p.hidden_size : 0;
  for (uint32_t h = threadIdx.x; h < p.hidden_size; h += kEmbeddingThreads) {
    const float value = known ? load_float(p.table, source + h, p.table_is_bf16 != 0) : NAN;
    store_float(p.out, blockIdx.x * p.out_stride + h, value, p.out_is_bf16 != 0);
  }
}

__global__ void __launch_bounds__(kRandomThreads) random_fill(const RandomFillParams p) {
  begin_kernel();
  const uint64_t first = uint64_t{blockIdx.x} * kRandomElements;
  const uint64_t end = smaller(first + kRandomElements, p.num_elements);
  for (uint64_t i = first + threadIdx.x; i < end; i += kRandomThreads) {
    const float value = static_cast<float>(random_weight_integer(p.seed, p.tensor_id, i)) * p.scale + p.offset;
    store_float(p.out, i, value, p.is_bf16 != 0);
  }
}

__global__ void __launch_bounds__(kFillThreads) fill(const FillParams p) {
  begin_kernel();
  const uint64_t first = uint64_t{blockIdx.x} * kFillBytes;
  const uint64_t end = smaller(first + kFillBytes, p.num_bytes);
  if (p.destination % sizeof(uint32_t) == 0) {
    for (uint64_t i = first + threadIdx.x * sizeof(uint32_t); i < end; i += kFillThreads * sizeof(uint32_t)) {
      *pointer<uint32_t>(p.destination + i) = p.pattern;
    }
  } else {
    for (uint64_t i = first + threadIdx.x; i < end; i += kFillThreads) {
      *pointer<uint8_t>(p.destination + i) = static_cast<uint8_t>(p.pattern >> (i % sizeof(uint32_t) * 8));
    }
  }
}

/// As many bytes at a time as the addresses and the size are multiples of.
template <class Word>
FORETOKEN_DEVICE void copy_words(const CopyParams& p) {
  for (uint64_t i = threadIdx.x; i < p.num_bytes / sizeof(Word); i += kCopyThreads) {
    pointer<Word>(p.destination)[i] = pointer<const Word>(p.source)[i];
  }
}

__global__ void __launch_bounds__(kCopyThreads) copy(const CopyParams p) {
  begin_kernel();
  const uint64_t all = p.source | p.destination | p.num_bytes;
  if (all % sizeof(uint4) == 0) {
    copy_words<uint4>(p);
  } else if (all % sizeof(uint32_t) == 0) {
    copy_words<uint32_t>(p);
  } else {
    copy_words<uint8_t>(p);
  }
}

}  // namespace
}  // namespace foretoken::gpu
