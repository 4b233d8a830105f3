// The page of `bench serve`: all series in every plot and table, whatever they are called.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "apps/foretoken/serve_report.h"
#include "tests/unit/report/markup.h"

namespace foretoken::cli {
namespace {

using test::count;
using test::Markup;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

constexpr const char* kHostile = "</style><img src=\"http://example.com\"/>'&\xff";
constexpr size_t kPlots = 8;

ServeFigures figures(double scale) {
  return {.seconds = 10.0,
          .output_tokens = 100,
          .output_tokens_per_second = 10.0 * scale,
          .requests_per_second = 1.0,
          .time_to_first_token = {.sorted_ms = {1.0 * scale, 2.0, 30.0}},
          .inter_token = {.sorted_ms = {0.5, 0.75 * scale}},
          .end_to_end = {.sorted_ms = {100.0 * scale, 200.0}},
          .rounds = 40,
          .mean_sequences = 2.5,
          .max_sequences = 4,
          .mean_tokens_per_round = 2.0,
          .tokens_per_round = {10, 5, 3},
          .drafted = 120,
          .accepted = 60,
          .acceptance_by_position = {0.75, 0.5},
          .time = {.draft_ms = 100, .verify_ms = 200, .host_ms = 50, .prefill_ms = 150, .idle_ms = 500},
          .timeline = {{.time_s = 1, .mean_depth = 3, .mean_sequences = 2}, {.time_s = 2, .mean_depth = 1, .mean_sequences = 4}},
          .cached_prompt_tokens = 64,
          .preemptions = 2};
}

ServeReport report() {
  ServeReport made;
  made.engine.model = "model";
  made.engine.device = "device";
  made.command = "foretoken bench serve --rate 2";
  made.num_requests = 20;
  made.checked = true;
  made.series.push_back(
      {.draft_rows = "exact", .depth_policy = "auto", .rate = 2.5, .figures = figures(1.0), .output_tokens_per_second = {10.0}});
  made.series.push_back({.draft_rows = "trim",
                         .depth_policy = "4:3,8:2",
                         .rate = std::numeric_limits<double>::infinity(),
                         .figures = figures(2.0),
                         .output_tokens_per_second = {20.0}});
  return made;
}

Markup well_formed(const std::string& html) {
  Markup markup = test::read_markup(html);
  EXPECT_THAT(markup.error, IsEmpty());
  return markup;
}

size_t occurrences(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(ServePage, HasEverySeriesInEveryPlotAndTable) {
  const Markup markup = well_formed(to_html(report(), "2026-01-02 03:04 UTC"));
  EXPECT_EQ(count(markup, "figure"), kPlots);
  EXPECT_EQ(count(markup, "table"), 4U);
  EXPECT_THAT(markup.ids, IsSupersetOf({"acceptance", "tokens-per-round", "time", "depth", "sequences", "first-token",
                                        "inter-token", "end-to-end"}));
  for (const char* name : {"auto, 2.5 requests/s", "4:3,8:2, trim, all at once"}) {
    EXPECT_GE(occurrences(markup.text, name), kPlots + 4) << name;
  }
  for (const char* part : {"foretoken bench serve --rate 2", "2026-01-02 03:04 UTC", "75.0 %", "preemptions", "draft 2"}) {
    EXPECT_THAT(markup.text, HasSubstr(part));
  }
  EXPECT_THAT(markup.text, HasSubstr("all identical to those of the requests alone"));
}

TEST(ServePage, EscapesHostileNames) {
  ServeReport made = report();
  made.engine = {.model = kHostile, .backend = kHostile, .device = kHostile};
  made.engine.draft = DraftReport{.requested = kHostile, .requested_lm_head = kHostile, .effective = kHostile, .stored = {}};
  made.command = kHostile;
  made.series.front().depth_policy = kHostile;
  const Markup markup = well_formed(to_html(made, kHostile));
  EXPECT_EQ(count(markup, "img"), 0U);
  EXPECT_THAT(markup.links, IsEmpty());
  EXPECT_THAT(markup.text, HasSubstr("</style><img src=\"http://example.com\"/>'&\xEF\xBF\xBD, 2.5 requests/s"));
}

TEST(ServePage, TakesARunWithoutDrafts) {
  ServeReport made = report();
  made.series.resize(1);
  ServeFigures& figures = made.series.front().figures;
  figures.acceptance_by_position = {};
  figures.drafted = figures.accepted = 0;
  figures.timeline = {{.time_s = 1, .mean_depth = 0, .mean_sequences = 1}};
  figures.inter_token = {};
  figures.tokens_per_round = {};
  const Markup markup = well_formed(to_html(made, ""));
  EXPECT_EQ(occurrences(markup.text, "There is nothing to show"), 3U) << "acceptance, tokens per round, inter-token latency";
}

TEST(ServeJson, HasTheFigures) {
  const auto json = nlohmann::json::parse(to_json(report()));
  EXPECT_EQ(json["requests"], 20);
  const auto& series = json["series"];
  ASSERT_EQ(series.size(), 2U);
  EXPECT_EQ(series[0]["speculative_tokens"], "auto");
  EXPECT_EQ(series[0]["draft_rows"], "exact");
  EXPECT_EQ(series[1]["draft_rows"], "trim");
  EXPECT_EQ(series[0]["rate"], 2.5);
  EXPECT_EQ(series[1]["rate"], "inf");
  EXPECT_EQ(series[0]["latency_ms"]["time_to_first_token"]["p50"], 2.0);
  EXPECT_EQ(series[0]["latency_ms"]["time_to_first_token"]["max"], 30.0);
  EXPECT_EQ(series[1]["latency_ms"]["end_to_end"]["p99"], 200.0);
  EXPECT_EQ(series[0]["timing_ms"]["prefill"], 150.0);
  EXPECT_EQ(series[0]["different"], 0);
  EXPECT_EQ(series[0]["preemptions"], 2);
  EXPECT_EQ(series[0]["timeline"].size(), 2U);
}

TEST(ServeTable, ShowsAcceptanceOfAllSeriesUnderEachOther) {
  ServeReport made = report();
  made.series.back().figures.acceptance_by_position = {0.25};
  const std::string table = to_table(made);
  EXPECT_THAT(table, HasSubstr("\nauto, 2.5 requests/s                2.00        10.0  0.750  0.500\n"));
  EXPECT_THAT(table, HasSubstr("\n4:3,8:2, trim, all at once          2.00        20.0  0.250\n"));
  made.series.resize(1);
  EXPECT_THAT(to_table(made), ::testing::Not(HasSubstr("acceptance by draft"))) << "there is nothing to compare";
}

TEST(ServeTable, NamesWhatDiffers) {
  ServeReport made = report();
  EXPECT_TRUE(made.identical());
  made.series.back().num_different = 3;
  EXPECT_FALSE(made.identical());
  EXPECT_THAT(to_table(made), HasSubstr("3 differ from those of the requests alone"));
  EXPECT_THAT(to_html(made, ""), HasSubstr("some differ"));
}

}  // namespace
}  // namespace foretoken::cli
