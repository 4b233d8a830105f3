#include "core/op_case.h"
#include "core/ops/accept.h"
#include "core/ops/case_parts.h"

namespace foretoken {
namespace {

constexpr int64_t kVocabSize = 248320;

AcceptGreedy make_accept(OperandMaker& maker, int64_t num_sequences, int64_t num_drafts, bool strided) {
  std::mt19937_64 generator(maker.seed());
  std::vector<std::vector<int32_t>> drafts;
  std::vector<std::vector<int32_t>> targets;
  for (int64_t b = 0; b < num_sequences; ++b) {
    std::vector<int32_t> draft;
    for (int64_t j = 0; j < num_drafts; ++j) draft.push_back(case_parts::draw(generator, 0, kVocabSize - 1));
    std::vector<int32_t> target = draft;
    target.push_back(case_parts::draw(generator, 0, kVocabSize - 1));
    // A first difference at `accepted`, when there is one; what follows agrees again and must not count.
    const auto accepted = static_cast<size_t>(case_parts::draw(generator, 0, num_drafts));
    if (accepted < draft.size()) target[accepted] = (target[accepted] + 1) % static_cast<int32_t>(kVocabSize);
    drafts.push_back(std::move(draft));
    targets.push_back(std::move(target));
  }
  const auto rows = [&](const std::vector<std::vector<int32_t>>& list, int64_t width) {
    const Shape extents{num_sequences, width};
    const Fill fill = case_parts::listed_rows(list);
    return strided ? maker.strided(DType::kI32, extents, width + 5, fill) : maker.input(DType::kI32, extents, fill);
  };
  AcceptGreedy op;
  op.draft_token_ids = rows(drafts, num_drafts);
  op.target_token_ids = rows(targets, num_drafts + 1);
  op.num_accepted = maker.output(DType::kI32, {num_sequences});
  return op;
}

}  // namespace

std::vector<OpCase<AcceptGreedy>> AcceptGreedy::cases() {
  std::vector<OpCase<AcceptGreedy>> list;
  const auto add = [&list](int64_t num_sequences, int64_t num_drafts, bool strided) {
    list.push_back(
        {.name = case_parts::sized("B", num_sequences) + case_parts::sized("_K", num_drafts) + (strided ? "_strided" : ""),
         .make = [=](OperandMaker& maker) { return make_accept(maker, num_sequences, num_drafts, strided); }});
  };
  add(1, 1, false);
  add(1, 3, false);
  add(64, 5, false);
  add(3, 15, false);
  add(7, 4, true);
  return list;
}

std::vector<OpCase<OverrideTokens>> OverrideTokens::cases() {
  std::vector<OpCase<OverrideTokens>> list;
  for (const int64_t count : {1, 4, 15, 33}) {
    list.push_back({.name = case_parts::sized("K", count), .make = [count](OperandMaker& maker) {
                      OverrideTokens op;
                      op.forced = maker.input(DType::kI32, {count}, fill::integers(-1, 1));
                      op.token_ids = maker.in_out(DType::kI32, {count}, fill::integers(0, kVocabSize - 1));
                      return op;
                    }});
  }
  list.push_back({.name = "none_forced", .make = [](OperandMaker& maker) {
                    OverrideTokens op;
                    op.forced = maker.input(DType::kI32, {5}, fill::constant(-1));
                    op.token_ids = maker.in_out(DType::kI32, {5}, fill::integers(0, kVocabSize - 1));
                    return op;
                  }});
  return list;
}

}  // namespace foretoken
