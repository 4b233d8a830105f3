#include "backends/row_by_row.h"

#include <memory>
#include <string>

#include "core/ops/linear.h"

namespace foretoken {
namespace {

Linear row_of(Linear op, int64_t row) {
  op.x = op.x.rows(row, 1);
  op.out = op.out.rows(row, 1);
  return op;
}

LinearSiluMul row_of(LinearSiluMul op, int64_t row) {
  op.x = op.x.rows(row, 1);
  op.out = op.out.rows(row, 1);
  return op;
}

LinearArgmax row_of(LinearArgmax op, int64_t row) {
  op.x = op.x.rows(row, 1);
  op.token_ids = op.token_ids.rows(row, 1);
  if (op.logprobs) op.logprobs = op.logprobs.rows(row, 1);
  return op;
}

/// All rows share the workspace of one, so they run one after another.
template <class Op>
void add(OpTable& table, const std::shared_ptr<const OpTable>& one_row) {
  const std::string& name = Op::schema().name();
  if (one_row->find(name).empty()) return;
  table.add<Op>(
      "row by row",
      [one_row, &name](CommandList& cmd, const Op& op) {
        for (int64_t row = 0; row < op.x.dim(0); ++row) {
          const Op single = row_of(op, row);
          one_row->choose(name, &single).launch(cmd, &single);
        }
      },
      [one_row, &name](const Op& op) {
        if (op.x.dim(0) < 2) return Availability::no("takes two rows or more");
        const Op single = row_of(op, 0);
        return one_row->availability(name, &single);
      },
      [one_row, &name](const Op& op) {
        const Op single = row_of(op, 0);
        const OpImplementation& chosen = one_row->choose(name, &single);
        return chosen.workspace_bytes ? chosen.workspace_bytes(&single) : 0;
      });
}

}  // namespace

void add_row_by_row(OpTable& table) {
  const auto one_row = std::make_shared<const OpTable>(table);  // shared by the implementations, which outlive this call
  add<Linear>(table, one_row);
  add<LinearSiluMul>(table, one_row);
  add<LinearArgmax>(table, one_row);
}

}  // namespace foretoken
