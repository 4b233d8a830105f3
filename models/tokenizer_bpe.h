// Byte-pair encoding of one word: merges by rank, best first and leftmost among equals, in n log n time.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/tokenizer_spec.h"

namespace foretoken::tokenizer_detail {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
};
template <class T>
using StringMap = std::unordered_map<std::string, T, StringHash, std::equal_to<>>;

class BytePairEncoder {
 public:
  /// `merges` best first; of two merges of one pair the later counts, as in the format's reference reader. `byte_ids` [256].
  BytePairEncoder(const std::vector<Merge>& merges, std::vector<int32_t> byte_ids);

  /// Appends the ids of the bytes of `word`. Safe to call from several threads at once.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  struct RankedMerge {
    int32_t rank = 0;
    int32_t result = 0;
  };
  struct PairHash {
    size_t operator()(uint64_t pair) const noexcept { return static_cast<size_t>((pair * 0x9E3779B97F4A7C15ULL) >> 16U); }
  };
  const RankedMerge* find_merge(int32_t left, int32_t right) const;
  std::vector<int32_t> merge_word(std::string_view word) const;

  std::unordered_map<uint64_t, RankedMerge, PairHash> merges_;  // key: left id in the upper half, right id in the lower
  std::vector<int32_t> byte_ids_;                               // [256]
  mutable std::mutex cache_mutex_;
  mutable StringMap<std::vector<int32_t>> cache_;  // short words met before; emptied when full
};

}  // namespace foretoken::tokenizer_detail
