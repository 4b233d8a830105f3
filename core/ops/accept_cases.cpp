#include "core/op_case.h"
#include "core/ops/accept.h"
#include "core/ops/case_parts.h"

namespace foretoken {
namespace {

constexpr int32_t kVocabSize = 248320;

/// Sequences of `rows` rows each, and as many rows of padding after them.
AcceptDrafts make_accept(OperandMaker& maker, const std::vector<int64_t>& rows, int64_t padding) {
  std::mt19937_64 generator(maker.seed());
  const auto any_id = [&generator] { return case_parts::draw(generator, 0, kVocabSize - 1); };
  std::vector<int32_t> fed;
  std::vector<int32_t> targets;
  std::vector<int32_t> starts{0};
  for (const int64_t count : rows) {
    for (int64_t row = 0; row < count; ++row) {
      fed.push_back(any_id());
      targets.push_back(any_id());
    }
    // A first difference after `accepted` drafts, when there is one; what follows agrees again and must not count.
    const auto accepted = count == 0 ? 0 : case_parts::draw(generator, 0, static_cast<int32_t>(count - 1));
    for (int64_t row = 1; row < count; ++row) {
      const auto at = static_cast<size_t>(starts.back() + row);
      targets[at - 1] = row - 1 == accepted ? (fed[at] + 1) % kVocabSize : fed[at];
    }
    starts.push_back(static_cast<int32_t>(fed.size()));
  }
  for (int64_t row = 0; row < padding; ++row) {
    fed.push_back(any_id());
    targets.push_back(fed.back());
  }
  const auto num_rows = static_cast<int64_t>(fed.size());
  AcceptDrafts op;
  op.token_ids = maker.input(DType::kI32, {num_rows}, case_parts::listed(fed));
  op.target_token_ids = maker.input(DType::kI32, {num_rows}, case_parts::listed(targets));
  op.query_start_loc = maker.input(DType::kI32, {static_cast<int64_t>(starts.size())}, case_parts::listed(starts));
  op.num_accepted = maker.output(DType::kI32, {static_cast<int64_t>(rows.size())});
  return op;
}

SelectTokens make_select(OperandMaker& maker, int64_t num_rows, int64_t num_sources, const Fill& host_token_ids) {
  SelectTokens op;
  op.host_token_ids = maker.input(DType::kI32, {num_rows}, host_token_ids);
  op.source = maker.input(DType::kI32, {num_sources}, fill::integers(0, kVocabSize - 1));
  op.source_rows = maker.input(DType::kI32, {num_rows}, fill::integers(-1, num_sources));  // both ends do not exist
  op.token_ids = maker.output(DType::kI32, {num_rows});
  return op;
}

}  // namespace

std::vector<OpCase<SelectTokens>> SelectTokens::cases() {
  std::vector<OpCase<SelectTokens>> list;
  const auto add = [&list](const std::string& name, int64_t num_rows, int64_t num_sources, const Fill& host_token_ids) {
    list.push_back({.name = name + case_parts::sized("_T", num_rows),
                    .make = [=](OperandMaker& maker) { return make_select(maker, num_rows, num_sources, host_token_ids); }});
  };
  for (const int64_t num_rows : {1, 4, 16, 33, 1024}) add("mixed", num_rows, 64, fill::integers(-1, 1));
  add("host_only", 5, 1, fill::integers(0, kVocabSize - 1));
  add("device_only", 300, 1024, fill::constant(-1));
  return list;
}

std::vector<OpCase<AcceptDrafts>> AcceptDrafts::cases() {
  std::vector<OpCase<AcceptDrafts>> list;
  const auto add = [&list](const std::string& name, const std::vector<int64_t>& rows, int64_t padding) {
    list.push_back({.name = name, .make = [=](OperandMaker& maker) { return make_accept(maker, rows, padding); }});
  };
  add("B1_K0", {1}, 0);
  add("B1_K1", {2}, 0);
  add("B1_K3", {4}, 0);
  add("B1_K15", {16}, 0);
  add("B64_K5", std::vector<int64_t>(64, 6), 0);
  add("ragged", {1, 16, 4, 2, 1, 7}, 1);
  add("padded", {4, 3, 0, 0}, 9);
  add("all_padding", {0, 0}, 2);
  return list;
}

}  // namespace foretoken
