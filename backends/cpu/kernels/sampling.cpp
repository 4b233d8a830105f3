// Argmax, the token ids of a step, embedding rows and random weights.
#include "backends/cpu/kernels/sampling_params.h"

#include "backends/cpu/kernels/argmax_row.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/simd.h"
#include "core/ops/random_fill.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {
namespace {

void argmax(const ArgmaxParams& p, uint32_t begin, uint32_t end) {
  for (size_t row = begin; row < end; ++row) {
    p.token_ids[row] = static_cast<int32_t>(argmax_row(p.logits + row * p.logits_stride, p.vocab_size));
  }
}

void select_tokens(const SelectTokensParams& p, uint32_t begin, uint32_t end) {
  for (size_t t = begin; t < end; ++t) {
    const int32_t row = p.source_rows[t];
    const bool exists = row >= 0 && static_cast<size_t>(row) < p.num_sources;
    const int32_t device_id = exists ? p.source[row] : -1;
    p.token_ids[t] = p.host_token_ids[t] >= 0 ? p.host_token_ids[t] : device_id;
  }
}

void accept_drafts(const AcceptDraftsParams& p, uint32_t begin, uint32_t end) {
  for (size_t b = begin; b < end; ++b) {
    const int32_t first = p.query_start_loc[b];
    const int32_t num_drafts = p.query_start_loc[b + 1] - first - 1;
    const int32_t* drafts = p.token_ids + first + 1;
    const int32_t* targets = p.target_token_ids + first;
    int32_t accepted = 0;
    while (accepted < num_drafts && drafts[accepted] == targets[accepted]) ++accepted;
    p.num_accepted[b] = accepted;
  }
}

void embedding(const EmbeddingParams& p, uint32_t begin, uint32_t end) {
  for (size_t row = begin; row < end; ++row) {
    float* out = p.out + row * p.out_stride;
    const int32_t id = p.ids[row];
    if (id < 0 || static_cast<size_t>(id) >= p.vocab_size) {
      for (size_t i = 0; i < p.hidden_size; ++i) out[i] = __builtin_nanf("");
      continue;
    }
    const size_t offset = static_cast<size_t>(id) * p.hidden_size;
    if (!p.table_is_bf16) {
      std::memcpy(out, static_cast<const float*>(p.table) + offset, p.hidden_size * sizeof(float));
      continue;
    }
    const uint16_t* source = static_cast<const uint16_t*>(p.table) + offset;
    size_t i = 0;
    for (; i + kLanes <= p.hidden_size; i += kLanes) F32x16::load(source + i).store(out + i);
    if (i < p.hidden_size) load_partial_bf16(source + i, p.hidden_size - i).store_partial(out + i, p.hidden_size - i);
  }
}

void random_fill(const RandomFillParams& p, uint32_t begin, uint32_t end) {
  for (size_t item = begin; item < end; ++item) {
    const size_t first = item * kRandomFillChunk;
    const size_t last = p.num_elements - first < kRandomFillChunk ? p.num_elements : first + kRandomFillChunk;
    for (size_t i = first; i < last; i += kLanes) {
      const size_t count = last - i < kLanes ? last - i : kLanes;
      float lanes[kLanes];
      // The product is exact, so every instruction set rounds the sum alike.
      for (size_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = static_cast<float>(random_weight_integer(p.seed, p.tensor_id, i + lane)) * p.scale + p.offset;
      }
      if (p.is_bf16) {
        uint16_t halves[kLanes];
        store_bf16(F32x16::load(lanes), halves);
        std::memcpy(static_cast<uint16_t*>(p.out) + i, halves, count * sizeof(uint16_t));
      } else {
        std::memcpy(static_cast<float*>(p.out) + i, lanes, count * sizeof(float));
      }
    }
  }
}

constexpr KernelEntry kEntries[] = {
    kernel_entry<ArgmaxParams, argmax>("argmax"),
    kernel_entry<SelectTokensParams, select_tokens>("select_tokens"),
    kernel_entry<AcceptDraftsParams, accept_drafts>("accept_drafts"),
    kernel_entry<EmbeddingParams, embedding>("embedding"),
    kernel_entry<RandomFillParams, random_fill>("random_fill"),
};

}  // namespace

void add_sampling_kernels(std::vector<KernelEntry>& list) { append(list, kEntries); }

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
