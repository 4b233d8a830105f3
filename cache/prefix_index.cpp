#include "cache/prefix_index.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/error.h"

namespace foretoken {
namespace {

constexpr uint64_t kOtherSeed = 0x9e3779b97f4a7c15ULL;  // keeps the hashes of the two origins apart

int64_t blocks_for(int64_t rows, int32_t block_size) { return (rows + block_size - 1) / block_size; }

[[noreturn]] void fail(const std::string& what, const std::string& expected, int64_t got) {
  throw Error(ErrorCode::kInvalidArgument,
              {.what = what, .where = "prefix index", .expected = expected, .got = std::to_string(got)});
}

}  // namespace

/// See the head of prefix_index.h. The root stands for no tokens.
struct PrefixIndex::Node {
  Node* parent = nullptr;
  std::vector<int32_t> token_ids;
  int64_t end = 0;  // tokens of the path, the node's included
  Origin origin = Origin::kGrid;
  int64_t grid_end = 0;  // leading tokens of the path that are kGrid
  uint64_t hash = 0;
  BlockReference target;
  BlockReference draft;         // nothing where it has no settled row
  BlockReference draft_before;  // nothing in a first node
  BlockReference snapshot;
  bool has_draft = false;            // then its ancestors do
  bool snapshot_has_hidden = false;  // a drafter can resume there
  int64_t num_children = 0;
  int64_t num_partial_children = 0;
  uint64_t last_used = 0;
  uint64_t snapshot_used = 0;
};

uint64_t prefix_hash(uint64_t parent, std::span<const int32_t> token_ids) {
  uint64_t hash = parent;
  for (const int32_t id : token_ids) {  // the finaliser of splitmix64, token by token
    hash = (hash ^ static_cast<uint32_t>(id)) + 0x9e3779b97f4a7c15ULL;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ULL;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebULL;
    hash ^= hash >> 31;
  }
  return hash;
}

PrefixIndex::Holdings::Holdings(BlockPool* pool)
    : pool_(pool), held_(pool == nullptr ? 0 : static_cast<size_t>(pool->num_blocks())) {}

BlockReference PrefixIndex::Holdings::take(int32_t block) {
  BlockReference reference = BlockReference::share(*pool_, block);
  ++held_[static_cast<size_t>(block)];
  return reference;
}

void PrefixIndex::Holdings::drop(BlockReference& reference) {
  if (!reference) return;
  --held_[static_cast<size_t>(reference.block())];
  reference.reset();
}

bool PrefixIndex::Holdings::is_last(const BlockReference& reference) const {
  return reference && pool_->num_references(reference.block()) == 1;
}

int64_t PrefixIndex::Holdings::num_available() const {
  int64_t available = num_free();
  for (size_t block = 0; block < held_.size(); ++block) {
    available += held_[block] > 0 && pool_->num_references(static_cast<int32_t>(block)) == held_[block] ? 1 : 0;
  }
  return available;
}

PrefixIndex::PrefixIndex(const PrefixPools& pools, const PrefixIndexOptions& options)
    : options_(options),
      target_(pools.target),
      draft_(pools.draft),
      snapshot_pool_(pools.snapshots),
      root_(std::make_unique<Node>()) {
  if (pools.target == nullptr) throw Error(ErrorCode::kInvalidArgument, "a prefix index needs the pool of the target's blocks");
  if (options.block_size < 1) fail("block size", "at least 1", options.block_size);
  if (options.grid < 1) fail("grid of prefill", "at least 1", options.grid);
}

PrefixIndex::~PrefixIndex() = default;

uint64_t PrefixIndex::hash_of(const Node& parent, std::span<const int32_t> token_ids, Origin origin) const {
  return options_.hash(origin == parent.origin ? parent.hash : parent.hash ^ kOtherSeed, token_ids);
}

PrefixIndex::Node* PrefixIndex::find(Node& parent, std::span<const int32_t> token_ids, Origin origin) const {
  const auto [begin, end] = nodes_.equal_range(hash_of(parent, token_ids, origin));
  for (auto entry = begin; entry != end; ++entry) {
    Node& node = *entry->second;
    if (node.parent == &parent && node.origin == origin && std::ranges::equal(node.token_ids, token_ids)) return &node;
  }
  return nullptr;
}

PrefixIndex::Node* PrefixIndex::next(Node& parent, std::span<const int32_t> token_ids, Origin origin) const {
  const auto block_size = static_cast<size_t>(options_.block_size);
  const auto begin = static_cast<size_t>(parent.end);
  if (parent.num_children == 0 || begin + block_size > token_ids.size()) return nullptr;
  return find(parent, token_ids.subspan(begin, block_size), origin);
}

/// Takes the node for the best one when a sequence can resume with more tokens of its path.
void PrefixIndex::consider(Node& node, std::span<const int32_t> token_ids, bool needs_draft, Candidate& best) const {
  if (node.parent == nullptr || (needs_draft && !node.has_draft)) return;
  int64_t tokens = node.end;
  if (snapshot_pool_ != nullptr) {
    if (!node.snapshot || tokens == static_cast<int64_t>(token_ids.size())) return;
    if (needs_draft && !node.snapshot_has_hidden) return;
  } else {
    tokens -= 1;
    if (node.origin == Origin::kGrid) tokens = tokens / options_.grid * options_.grid;
  }
  const auto rank = [](int64_t num_tokens, const Node* of) { return std::pair(num_tokens, of == nullptr ? 0 : of->grid_end); };
  if (rank(tokens, &node) > rank(best.num_tokens, best.node)) best = {.node = &node, .num_tokens = tokens};
}

void PrefixIndex::consider_with_partial_children(Node& node, std::span<const int32_t> token_ids, bool needs_draft,
                                                 Candidate& best) const {
  consider(node, token_ids, needs_draft, best);
  if (node.num_partial_children == 0) return;
  const auto rest = token_ids.subspan(static_cast<size_t>(node.end));
  const size_t longest = std::min(static_cast<size_t>(options_.block_size) - 1, rest.size());
  for (size_t count = 1; count <= longest; ++count) {
    for (const Origin origin : {Origin::kGrid, Origin::kOther}) {
      if (origin == Origin::kOther && !options_.reuse_generated) continue;
      Node* child = find(node, rest.first(count), origin);
      if (child != nullptr) consider(*child, token_ids, needs_draft, best);
    }
  }
}

PrefixMatch PrefixIndex::lookup(std::span<const int32_t> token_ids, bool needs_draft) {
  Candidate best;
  for (Node* grid = root_.get(); grid != nullptr; grid = next(*grid, token_ids, Origin::kGrid)) {
    consider_with_partial_children(*grid, token_ids, needs_draft, best);
    if (!options_.reuse_generated) continue;
    for (Node* other = next(*grid, token_ids, Origin::kOther); other != nullptr;
         other = next(*other, token_ids, Origin::kOther)) {
      consider_with_partial_children(*other, token_ids, needs_draft, best);
    }
  }
  if (best.num_tokens == 0) return {};
  touch_path(best.node);
  if (best.node->snapshot) touch_snapshot(*best.node);
  return match(best, needs_draft);
}

PrefixMatch PrefixIndex::match(const Candidate& candidate, bool needs_draft) const {
  std::vector<const Node*> path;
  for (const Node* node = candidate.node; node->parent != nullptr; node = node->parent) path.push_back(node);
  std::ranges::reverse(path);

  PrefixMatch result;
  result.num_tokens = candidate.num_tokens;
  result.num_grid_tokens = std::min(candidate.node->grid_end, candidate.num_tokens);
  const auto num_target = static_cast<size_t>(blocks_for(candidate.num_tokens, options_.block_size));
  for (const Node* node : std::span(path).first(num_target)) {
    result.target_blocks.push_back(BlockReference::share(*target_.pool(), node->target.block()));
  }
  if (snapshot_pool_ != nullptr) {
    result.snapshot = BlockReference::share(*snapshot_pool_, candidate.node->snapshot.block());
  }
  if (!needs_draft) return result;
  result.needs_boundary_row = snapshot_pool_ != nullptr;
  result.num_draft_rows = candidate.num_tokens - (result.needs_boundary_row ? 1 : 0);
  const auto num_draft = static_cast<size_t>(blocks_for(result.num_draft_rows, options_.block_size));
  for (size_t i = 0; i < num_draft; ++i) {
    const BlockReference& block = i + 1 < path.size() ? path[i + 1]->draft_before : path[i]->draft;
    result.draft_blocks.push_back(BlockReference::share(*draft_.pool(), block.block()));
  }
  return result;
}

std::optional<BlockReference> PrefixIndex::allocate_snapshot() {
  if (snapshot_pool_ == nullptr) return std::nullopt;
  if (snapshot_pool_->num_free() == 0) {
    const auto unused = std::ranges::find_if(
        snapshots_, [&](const auto& entry) { return snapshot_pool_->num_references(entry.second->snapshot.block()) == 1; });
    if (unused == snapshots_.end()) return std::nullopt;
    drop_snapshot(*unused->second);
  }
  const std::optional<int32_t> snapshot = snapshot_pool_->allocate();
  return snapshot ? std::optional<BlockReference>(std::in_place, *snapshot_pool_, *snapshot) : std::nullopt;
}

void PrefixIndex::check_source(const PrefixSource& source) const {
  const auto tokens = static_cast<int64_t>(source.token_ids.size());
  if (tokens == 0) fail("tokens of a prefix", "at least 1", 0);
  if (source.num_grid_tokens < 0 || source.num_grid_tokens > tokens) {
    fail("tokens on the grid", "0 .. " + std::to_string(tokens), source.num_grid_tokens);
  }
  const int64_t target = blocks_for(tokens, options_.block_size);
  const auto check_blocks = [&](std::span<const int32_t> blocks, const Holdings& holdings, int64_t needed, const char* what) {
    const auto count = static_cast<int64_t>(blocks.size());
    if (count < needed) fail(what, "at least " + std::to_string(needed), count);
    for (const int32_t block : blocks.first(static_cast<size_t>(needed))) {
      if (holdings.pool()->num_references(block) == 0) fail(what, "blocks in use", block);
    }
  };
  check_blocks(source.target_blocks, target_, target, "target blocks of a prefix");
  if (source.draft_blocks.empty()) return;
  if (draft_.pool() == nullptr) fail("drafter blocks of a prefix in an index without drafter", "none", target);
  check_blocks(source.draft_blocks, draft_, blocks_for(tokens - 1, options_.block_size), "drafter blocks of a prefix");
}

PrefixIndex::Node* PrefixIndex::find_end(const PrefixSource& source) const {
  const auto tokens = static_cast<int64_t>(source.token_ids.size());
  Node* node = root_.get();
  while (node != nullptr && node->end < tokens) {
    const int64_t end = std::min(node->end + options_.block_size, tokens);
    const auto ids = source.token_ids.subspan(static_cast<size_t>(node->end), static_cast<size_t>(end - node->end));
    node = find(*node, ids, end <= source.num_grid_tokens ? Origin::kGrid : Origin::kOther);
  }
  return node;
}

bool PrefixIndex::contains(const PrefixSource& source) {
  check_source(source);
  Node* node = find_end(source);
  if (node == nullptr || node == root_.get()) return false;
  const bool with_draft = !source.draft_blocks.empty();
  if (with_draft && !node->has_draft) return false;
  if (snapshot_pool_ != nullptr && (!node->snapshot || (with_draft && !node->snapshot_has_hidden))) return false;
  touch_path(node);
  if (node->snapshot) touch_snapshot(*node);
  return true;
}

void PrefixIndex::insert(const PrefixSource& source, BlockReference snapshot) {
  check_source(source);
  const auto tokens = static_cast<int64_t>(source.token_ids.size());
  if (static_cast<bool>(snapshot) != (snapshot_pool_ != nullptr)) {
    fail("snapshots of a prefix", snapshot_pool_ != nullptr ? "1, of the recurrent state" : "none", snapshot ? 1 : 0);
  }
  Node* node = root_.get();
  while (node->end < tokens) {
    const int64_t end = std::min(node->end + options_.block_size, tokens);
    const auto ids = source.token_ids.subspan(static_cast<size_t>(node->end), static_cast<size_t>(end - node->end));
    const Origin origin = end <= source.num_grid_tokens ? Origin::kGrid : Origin::kOther;
    Node* child = find(*node, ids, origin);
    if (child == nullptr) {
      const auto block_idx = static_cast<size_t>(node->end / options_.block_size);
      child = &add_child(*node, ids, origin, source.target_blocks[block_idx]);
    }
    if (!source.draft_blocks.empty() && !child->has_draft) attach_draft(*child, source.draft_blocks);
    node = child;
  }
  touch_path(node);
  if (!snapshot) return;
  const bool has_hidden = !source.draft_blocks.empty();
  if (!node->snapshot || has_hidden) {
    node->snapshot = std::move(snapshot);
    node->snapshot_has_hidden = has_hidden;
  }
  touch_snapshot(*node);
}

PrefixIndex::Node& PrefixIndex::add_child(Node& parent, std::span<const int32_t> token_ids, Origin origin, int32_t target_block) {
  auto node = std::make_unique<Node>();
  node->parent = &parent;
  node->token_ids.assign(token_ids.begin(), token_ids.end());
  node->end = parent.end + static_cast<int64_t>(token_ids.size());
  node->origin = origin;
  node->grid_end = origin == Origin::kGrid ? node->end : parent.grid_end;
  node->hash = hash_of(parent, token_ids, origin);
  node->last_used = clock_;
  Node& child = *node;
  leaves_.emplace(child.last_used, &child);
  nodes_.emplace(child.hash, std::move(node));
  child.target = target_.take(target_block);
  if (parent.parent != nullptr && parent.num_children == 0) leaves_.erase({parent.last_used, &parent});
  ++parent.num_children;
  if (token_ids.size() < static_cast<size_t>(options_.block_size)) ++parent.num_partial_children;
  return child;
}

void PrefixIndex::attach_draft(Node& node, std::span<const int32_t> draft_blocks) {
  const auto block_idx = static_cast<size_t>(node.parent->end / options_.block_size);
  if (block_idx > 0) node.draft_before = draft_.take(draft_blocks[block_idx - 1]);
  if (node.token_ids.size() > 1) node.draft = draft_.take(draft_blocks[block_idx]);
  node.has_draft = true;
}

void PrefixIndex::touch_path(Node* node) {
  ++clock_;
  for (; node->parent != nullptr; node = node->parent) {
    const bool is_leaf = node->num_children == 0;
    if (is_leaf) leaves_.erase({node->last_used, node});
    node->last_used = clock_;
    if (is_leaf) leaves_.emplace(node->last_used, node);
  }
}

/// A snapshot counts as used with the lookups that end at it, not with those that pass.
void PrefixIndex::touch_snapshot(Node& node) {
  snapshots_.erase({node.snapshot_used, &node});
  node.snapshot_used = clock_;
  snapshots_.emplace(node.snapshot_used, &node);
}

void PrefixIndex::drop_snapshot(Node& node) {
  snapshots_.erase({node.snapshot_used, &node});
  node.snapshot.reset();
  ++statistics_.num_evicted_snapshots;
  if (node.num_children == 0) evict(&node);
}

void PrefixIndex::evict(Node* leaf) {
  while (true) {
    Node* parent = leaf->parent;
    remove(*leaf);
    ++statistics_.num_evicted_nodes;
    if (parent == root_.get() || parent->num_children > 0) return;
    // With recurrent state, rows behind the last snapshot of a path are of no use.
    if (snapshot_pool_ == nullptr || parent->snapshot) return;
    leaf = parent;
  }
}

/// Takes a leaf out of the tree and gives back what it holds; its parent may be a leaf then.
void PrefixIndex::remove(Node& leaf) {
  Node& parent = *leaf.parent;
  leaves_.erase({leaf.last_used, &leaf});
  if (leaf.snapshot) snapshots_.erase({leaf.snapshot_used, &leaf});
  target_.drop(leaf.target);
  draft_.drop(leaf.draft);
  draft_.drop(leaf.draft_before);
  --parent.num_children;
  if (leaf.token_ids.size() < static_cast<size_t>(options_.block_size)) --parent.num_partial_children;
  if (parent.parent != nullptr && parent.num_children == 0) leaves_.emplace(parent.last_used, &parent);
  const auto [begin, end] = nodes_.equal_range(leaf.hash);
  nodes_.erase(std::find_if(begin, end, [&](const auto& entry) { return entry.second.get() == &leaf; }));
}

/// The least recently used leaf that frees a block of a pool that is short; where none does, the least recently used one, which
/// stands in the way of others.
PrefixIndex::Node& PrefixIndex::next_victim(bool target_short, bool draft_short) const {
  for (const auto& [when, leaf] : leaves_) {
    if (target_short && target_.is_last(leaf->target)) return *leaf;
    if (draft_short && (draft_.is_last(leaf->draft) || draft_.is_last(leaf->draft_before))) return *leaf;
  }
  return *leaves_.begin()->second;
}

bool PrefixIndex::make_room(int64_t num_target_blocks, int64_t num_draft_blocks) {
  if (!target_.can_free(num_target_blocks) || !draft_.can_free(num_draft_blocks)) return false;
  while (true) {
    const bool target_short = target_.num_free() < num_target_blocks;
    const bool draft_short = draft_.num_free() < num_draft_blocks;
    if (!target_short && !draft_short) return true;
    evict(&next_victim(target_short, draft_short));
  }
}

void PrefixIndex::clear() {
  while (!leaves_.empty()) remove(*leaves_.begin()->second);
}

}  // namespace foretoken
