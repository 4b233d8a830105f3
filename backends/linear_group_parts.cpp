#include "backends/linear_group_parts.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "core/ops/linear_group.h"

namespace foretoken {
namespace {

LinearGroup part_of(const LinearGroup& op, size_t first, size_t count) {
  LinearGroup part;
  part.x = op.x;
  part.workspace = op.workspace;
  part.precision = op.precision;
  std::copy_n(op.w.begin() + static_cast<std::ptrdiff_t>(first), count, part.w.begin());
  std::copy_n(op.out.begin() + static_cast<std::ptrdiff_t>(first), count, part.out.begin());
  return part;
}

/// The group without this implementation, and single projections.
class Parts {
 public:
  explicit Parts(OpTable table) : table_(std::move(table)) {}

  /// Calls use(name of the operator, the operator) for each part.
  template <class Use>
  void for_each(const LinearGroup& op, const Use& use) const {
    const size_t total = op.num_projections();
    for (size_t first = 0; first < total;) {
      const size_t count = longest(op, first, total);
      if (count > 1) {
        use(LinearGroup::schema().name(), part_of(op, first, count));
      } else {
        use(Linear::schema().name(), op.projection(first));
      }
      first += count;
    }
  }

  [[nodiscard]] const OpTable& table() const { return table_; }

 private:
  /// Neighbours from `first` on that one implementation takes together; never the whole group.
  [[nodiscard]] size_t longest(const LinearGroup& op, size_t first, size_t total) const {
    for (size_t count = first == 0 ? total - 1 : total - first; count > 1; --count) {
      const LinearGroup part = part_of(op, first, count);
      if (table_.availability(LinearGroup::schema().name(), &part)) return count;
    }
    return 1;
  }

  OpTable table_;
};

}  // namespace

void add_linear_group_parts(OpTable& table) {
  if (table.find(Linear::schema().name()).empty()) return;
  const auto parts = std::make_shared<const Parts>(table);  // shared by the functions below, which outlive this call
  table.add<LinearGroup>(
      "parts",
      [parts](CommandList& cmd, const LinearGroup& op) {
        parts->for_each(
            op, [&](const std::string& name, const auto& part) { parts->table().choose(name, &part).launch(cmd, &part); });
      },
      [parts](const LinearGroup& op) {
        Availability all = Availability::yes();
        parts->for_each(op, [&](const std::string& name, const auto& part) {
          if (all) all = parts->table().availability(name, &part);
        });
        return all;
      },
      [parts](const LinearGroup& op) {
        size_t bytes = 0;
        parts->for_each(op, [&](const std::string& name, const auto& part) {
          const OpImplementation& chosen = parts->table().choose(name, &part);
          if (chosen.workspace_bytes) bytes = std::max(bytes, chosen.workspace_bytes(&part));
        });
        return bytes;
      });
}

}  // namespace foretoken
