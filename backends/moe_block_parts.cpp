#include "backends/moe_block_parts.h"

#include <memory>

#include "core/ops/moe_block.h"

namespace foretoken {
namespace {

/// Calls use(operator) for each part, in order.
template <class Use>
void for_each_part(const MoeBlock& op, const Use& use) {
  use(op.scores());
  use(op.shared_product());
  use(op.shared_output());
  use(op.route());
  use(op.experts_up());
  use(op.experts_down());
}

template <class Op>
std::string_view name_of(const Op& /*op*/) {
  return Op::schema().name();
}

}  // namespace

void add_moe_block_parts(OpTable& table) {
  if (table.find(MoeRoute::schema().name()).empty()) return;
  const auto parts = std::make_shared<const OpTable>(table);  // shared by the functions below, which outlive this call
  table.add<MoeBlock>(
      "parts",
      [parts](CommandList& cmd, const MoeBlock& op) {
        for_each_part(op, [&](const auto& part) { parts->choose(name_of(part), &part).launch(cmd, &part); });
      },
      [parts](const MoeBlock& op) {
        Availability all = Availability::yes();
        for_each_part(op, [&](const auto& part) {
          if (all) all = parts->availability(name_of(part), &part);
        });
        return all;
      },
      [parts](const MoeBlock& op) {
        const MoeExpertsDown down = op.experts_down();
        const OpImplementation& chosen = parts->choose(name_of(down), &down);
        return chosen.workspace_bytes ? chosen.workspace_bytes(&down) : 0;
      });
}

}  // namespace foretoken
