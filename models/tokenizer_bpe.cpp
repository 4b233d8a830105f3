#include "models/tokenizer_bpe.h"

#include <algorithm>
#include <queue>

namespace foretoken::tokenizer_detail {
namespace {

// Bounds of the cache: at most about 2 MB.
constexpr size_t kMaxCachedWords = 16384;
constexpr size_t kMaxCachedWordBytes = 48;

constexpr int32_t kNone = -1;

struct Symbol {
  int32_t id = kNone;  // kNone: merged into the symbol before it
  int32_t previous = kNone;
  int32_t next = kNone;
};

struct Candidate {
  int32_t rank = 0;
  int32_t left_idx = 0;
  int32_t left_id = 0;
  int32_t right_id = 0;
  int32_t result = 0;
};

struct ComesLater {
  bool operator()(const Candidate& a, const Candidate& b) const noexcept {
    return a.rank != b.rank ? a.rank > b.rank : a.left_idx > b.left_idx;
  }
};

constexpr uint64_t pair_key(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32U) | static_cast<uint32_t>(right);
}

}  // namespace

BytePairEncoder::BytePairEncoder(const std::vector<Merge>& merges, std::vector<int32_t> byte_ids)
    : byte_ids_(std::move(byte_ids)) {
  merges_.reserve(merges.size());
  int32_t rank = 0;
  for (const Merge& merge : merges)
    merges_.insert_or_assign(pair_key(merge.left, merge.right), RankedMerge{rank++, merge.result});
}

const BytePairEncoder::RankedMerge* BytePairEncoder::find_merge(int32_t left, int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BytePairEncoder::encode(std::string_view word, std::vector<int32_t>& ids) const {
  if (word.size() == 1) {
    ids.push_back(byte_ids_[static_cast<uint8_t>(word[0])]);
    return;
  }
  const bool cacheable = word.size() <= kMaxCachedWordBytes;
  if (cacheable) {
    const std::lock_guard lock(cache_mutex_);
    if (const auto found = cache_.find(word); found != cache_.end()) {
      ids.insert(ids.end(), found->second.begin(), found->second.end());
      return;
    }
  }
  std::vector<int32_t> word_ids = merge_word(word);
  ids.insert(ids.end(), word_ids.begin(), word_ids.end());
  if (!cacheable) return;
  const std::lock_guard lock(cache_mutex_);
  if (cache_.size() >= kMaxCachedWords) cache_.clear();
  cache_.try_emplace(std::string(word), std::move(word_ids));
}

std::vector<int32_t> BytePairEncoder::merge_word(std::string_view word) const {
  const auto length = static_cast<int32_t>(word.size());
  std::vector<Symbol> symbols(word.size());
  for (int32_t i = 0; i < length; ++i) {
    symbols[i] = {byte_ids_[static_cast<uint8_t>(word[i])], i - 1, i + 1 < length ? i + 1 : kNone};
  }
  std::priority_queue<Candidate, std::vector<Candidate>, ComesLater> candidates;
  const auto propose = [&](int32_t left_idx, int32_t right_idx) {
    if (left_idx == kNone || right_idx == kNone) return;
    const Symbol& left = symbols[left_idx];
    const Symbol& right = symbols[right_idx];
    if (const RankedMerge* merge = find_merge(left.id, right.id)) {
      candidates.push({merge->rank, left_idx, left.id, right.id, merge->result});
    }
  };
  for (int32_t i = 0; i + 1 < length; ++i) propose(i, i + 1);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Symbol& left = symbols[best.left_idx];
    // A candidate is stale when one of its symbols has been merged since.
    if (left.id != best.left_id || left.next == kNone || symbols[left.next].id != best.right_id) continue;
    Symbol& right = symbols[left.next];
    left.id = best.result;
    left.next = right.next;
    right.id = kNone;
    if (left.next != kNone) symbols[left.next].previous = best.left_idx;
    propose(left.previous, best.left_idx);
    propose(best.left_idx, left.next);
  }
  std::vector<int32_t> ids;
  for (int32_t i = 0; i != kNone; i = symbols[i].next) ids.push_back(symbols[i].id);
  return ids;
}

}  // namespace foretoken::tokenizer_detail
