#include "tests/unit/ops_page/ops_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/op_case.h"
#include "core/ops/all_ops.h"
#include "tests/unit/ops_page/declaration.h"

namespace foretoken {
namespace {

constexpr std::string_view kIntroduction = R"(# Operators

Every operator that layers and models are made of, as `core/ops/` declares it: the formula, the fields, and the schema that each call is
checked against. A backend implements them under the same names; `foretoken conformance` holds each implementation to the float64
reference in `backends/cpu/reference/` on all cases, and `foretoken conformance --op NAME --json` names the implementations of a device.

Letters in shapes stand for sizes that must agree within one call (T: rows, K and N: columns and rows of a weight, B: sequences), `...`
for any shape: that of scales depends on the weight's format. An `optional` operand may be absent; rows of a `strided` one may be further
apart than they are long. Bounds are the largest relative error of a row, and the largest normalised mean squared error, that an output
of a dtype may have; what has none is exact.

This page is printed by the program `write_ops_page` of the tests.
)";

struct SchemaFacts {
  const OpSchema* schema;
  size_t num_cases;
};

std::map<std::string, SchemaFacts> all_schemas() {
  std::map<std::string, SchemaFacts> schemas;
  for_each_op([&schemas](auto tag) {
    using Op = typename decltype(tag)::type;
    schemas.emplace(Op::schema().name(), SchemaFacts{.schema = &Op::schema(), .num_cases = Op::cases().size()});
  });
  return schemas;
}

template <class Items, class Text>
std::string joined(const Items& items, Text text) {
  std::string out;
  for (const auto& item : items) out += fmt::format("{}{}", out.empty() ? "" : ", ", text(item));
  return out;
}

std::string_view access_name(AccessMode mode) {
  switch (mode) {
    case AccessMode::kRead: return "in";
    case AccessMode::kWrite: return "out";
    case AccessMode::kReadWrite: return "in, out";
  }
  return "";
}

std::string operand_table(std::span<const OperandSpec> operands) {
  std::string out = "| operand | use | shape | dtype | |\n|---|---|---|---|---|\n";
  for (const OperandSpec& operand : operands) {
    std::string notes = operand.optional ? "optional" : "";
    if (operand.strided) notes += notes.empty() ? "strided" : ", strided";
    out +=
        fmt::format("| `{}` | {} | `[{}]` | {} | {} |\n", operand.name, access_name(operand.access),
                    joined(operand.dims, [](const std::string& dim) { return dim; }),
                    operand.dtypes.empty() ? "any" : joined(operand.dtypes, [](DType dtype) { return to_string(dtype); }), notes);
  }
  return out;
}

/// "Bounds: F32 1e-05 (1e-10), BF16 ..." for the dtypes of outputs, or nothing.
std::string bounds_of(const OpSchema& schema) {
  std::vector<DType> seen;
  std::string out;
  for (const OperandSpec& operand : schema.operands()) {
    if (operand.access == AccessMode::kRead) continue;
    for (const DType dtype : operand.dtypes) {
      if (std::ranges::find(seen, dtype) != seen.end()) continue;
      seen.push_back(dtype);
      const Tolerance bound = schema.tolerance_for(dtype);
      if (bound.relative > 0.0)
        out += fmt::format("{}{} {:g} ({:g})", out.empty() ? "" : ", ", to_string(dtype), bound.relative, bound.nmse);
    }
  }
  return out.empty() ? "Exact." : "Bounds: " + out + ".";
}

std::string op_part(const OpDeclaration& op, const SchemaFacts& facts) {
  std::string out = fmt::format("\n### {}\n\n", facts.schema->name());
  if (!op.text.empty()) out += fmt::format("```text\n{}```\n\n", op.text);
  out += fmt::format("```cpp\nstruct {} {{\n", op.type);
  for (std::string_view rest = op.fields; !rest.empty(); rest.remove_prefix(rest.find('\n') + 1)) {
    out += fmt::format("  {}\n", rest.substr(0, rest.find('\n')));
  }
  out += "};\n```\n\n" + operand_table(facts.schema->operands());
  return out + fmt::format("\n{} {} case{}.\n", bounds_of(*facts.schema), facts.num_cases, facts.num_cases == 1 ? "" : "s");
}

}  // namespace

std::string ops_page(const std::filesystem::path& source) {
  std::map<std::string, SchemaFacts> schemas = all_schemas();
  std::string out(kIntroduction);
  for (const OpHeader& header : read_op_headers(source / "core/ops")) {
    out += fmt::format("\n## {}\n\n```text\n{}```\n", header.path, header.text);
    for (const OpDeclaration& op : header.ops) {
      const auto found = schemas.find(schema_name(op.type));
      if (found == schemas.end()) {
        throw Error(ErrorCode::kInternalError,
                    {.what = "is no operator of all_ops.h", .where = header.path, .got = op.type + ", " + schema_name(op.type)});
      }
      out += op_part(op, found->second);
      schemas.erase(found);
    }
  }
  if (!schemas.empty()) throw Error(ErrorCode::kInternalError, "no header declares " + schemas.begin()->first);
  return out;
}

}  // namespace foretoken
