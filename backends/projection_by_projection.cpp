#include "backends/projection_by_projection.h"

#include <algorithm>
#include <memory>
#include <string>

#include "core/ops/linear_group.h"

namespace foretoken {

void add_projection_by_projection(OpTable& table) {
  const auto single = std::make_shared<const OpTable>(table);  // shared by the functions below, which outlive this call
  const std::string& name = Linear::schema().name();
  if (single->find(name).empty()) return;
  table.add<LinearGroup>(
      "projection by projection",
      [single, &name](CommandList& cmd, const LinearGroup& op) {
        for (size_t i = 0; i < op.num_projections(); ++i) {
          const Linear projection = op.projection(i);
          single->choose(name, &projection).launch(cmd, &projection);
        }
      },
      [single, &name](const LinearGroup& op) {
        for (size_t i = 0; i < op.num_projections(); ++i) {
          const Linear projection = op.projection(i);
          if (const Availability available = single->availability(name, &projection); !available) return available;
        }
        return Availability::yes();
      },
      [single, &name](const LinearGroup& op) {
        size_t bytes = 0;
        for (size_t i = 0; i < op.num_projections(); ++i) {
          const Linear projection = op.projection(i);
          const OpImplementation& chosen = single->choose(name, &projection);
          if (chosen.workspace_bytes) bytes = std::max(bytes, chosen.workspace_bytes(&projection));
        }
        return bytes;
      });
}

}  // namespace foretoken
