// Charts: axes, series, what cannot be drawn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "apps/foretoken/report/chart.h"
#include "apps/foretoken/report/chart_frame.h"
#include "apps/foretoken/report/html.h"
#include "tests/unit/report/markup.h"

namespace foretoken::cli {
namespace {

using test::count;
using test::Markup;
using test::read_markup;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kHostile = "</title><script>alert('x')</script>\"&\x01\xff";

ChartText chart_text() { return {.id = "id", .title = "Title", .note = "Note.", .x_label = "across", .y_label = "up"}; }

Markup well_formed(const std::string& html) {
  Markup markup = read_markup(html);
  EXPECT_THAT(markup.error, IsEmpty()) << html;
  return markup;
}

TEST(MarkupReader, TellsWhatIsWrong) {
  EXPECT_THAT(read_markup("<p>a &amp; b</p>").error, IsEmpty());
  for (const char* broken : {"<p>", "<p></b></p>", "</p>", "<p>a & b</p>", "<p a=b></p>", "<p a=\"1\" a=\"2\"></p>", "<p",
                             "<p id=\"a\"></p><p id=\"a\"></p>"}) {
    EXPECT_THAT(read_markup(broken).error, Not(IsEmpty())) << broken;
  }
}

TEST(Html, EscapesWhateverBytesThereAre) {
  EXPECT_EQ(escaped("a<b>&\"'\n\t"), "a&lt;b&gt;&amp;&quot;&#39;\n\t");
  EXPECT_EQ(escaped("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(escaped(std::string("\0\x1b\x7f", 3)), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(escaped("\xff|\xe2\x82"), "\xEF\xBF\xBD|\xEF\xBF\xBD") << "ill-formed, and cut off";
  EXPECT_EQ(element("p", "<", "class=\"x\""), "<p class=\"x\">&lt;</p>");
}

TEST(Ticks, AreRoundAndReachTheGreatestValue) {
  for (const double max : {1e-9, 0.011, 0.3, 1.0, 3.0, 7.1, 60.0, 99.999, 100.0, 12345.0, 1e12}) {
    const Ticks ticks = ticks_up_to(max);
    EXPECT_GE(ticks.end(), max * (1.0 - 1e-9));
    EXPECT_LT(ticks.end() - ticks.step, max);
    EXPECT_LE(ticks.count, 6);
    EXPECT_GE(ticks.count, 2) << max;
  }
  EXPECT_DOUBLE_EQ(ticks_up_to(100.0).step, 20.0);
  EXPECT_DOUBLE_EQ(ticks_up_to(4.0, 8).step, 0.5);
}

TEST(LineChart, DrawsEachSeriesAndItsMarks) {
  const LineChart chart{.text = chart_text(),
                        .series = {{.name = "one", .points = {{1, 10}, {2, 5}}}, {.name = "two", .points = {{1, 0}}}},
                        .has_marks = true,
                        .has_whole_x = true};
  const std::string html = to_html(chart);
  const Markup markup = well_formed(html);
  EXPECT_EQ(count(markup, "g"), 2U);
  EXPECT_EQ(count(markup, "li"), 2U);
  for (const char* part : {"Title", "Note.", "across", "up", "one: 10 at 1", "one: 5 at 2", "two: 0 at 1"}) {
    EXPECT_THAT(markup.text, HasSubstr(part));
  }
  EXPECT_THAT(html, HasSubstr("role=\"img\" aria-labelledby=\"id-title id-note\""));
  // Positions 1 and 2 at a quarter and three quarters of the width, 10 at the top, 0 at the bottom.
  EXPECT_THAT(html, HasSubstr("d=\"M199.5 12L482.5 133\""));
  EXPECT_THAT(html, HasSubstr("d=\"M199.5 254\""));
}

TEST(LineChart, CutsValuesBeyondItsTop) {
  const LineChart chart{.text = chart_text(), .series = {{.name = "one", .points = {{0, 50}, {10, 200}}}}, .y_max = 100.0};
  EXPECT_THAT(to_html(chart), HasSubstr("d=\"M58 133L624 12\""));
}

TEST(BarChart, DrawsABarOfEachSeriesInEachCategory) {
  const BarChart chart{.text = chart_text(),
                       .categories = {"a", "b", "c"},
                       .series = {{.name = "one", .values = {1, 2, 3}}, {.name = "two", .values = {0, 0, 4}}}};
  const Markup markup = well_formed(to_html(chart));
  EXPECT_EQ(count(markup, "rect"), 6U + 2U) << "and those of the legend";
  EXPECT_THAT(markup.text, HasSubstr("two, c: 4"));
}

TEST(StackedChart, ShowsShares) {
  const StackedChart chart{.text = chart_text(),
                           .parts = {"left", "right"},
                           .rows = {{.name = "row", .values = {1, 3}}, {.name = "none", .values = {0, 0}}}};
  const std::string html = to_html(chart);
  const Markup markup = well_formed(html);
  for (const char* part : {"row, left: 25.0 %", "row, right: 75.0 %", "none"}) EXPECT_THAT(markup.text, HasSubstr(part));
  EXPECT_THAT(html, HasSubstr("width=\"158\""));
  EXPECT_THAT(html, HasSubstr("width=\"474\""));
}

TEST(Charts, SayWhenThereIsNothingToShow) {
  for (const std::string& html :
       {to_html(LineChart{.text = chart_text(), .series = {{.name = "one", .points = {}}}}),
        to_html(BarChart{.text = chart_text(), .categories = {"a"}, .series = {{.name = "one", .values = {0}}}}),
        to_html(StackedChart{.text = chart_text(), .parts = {"a"}, .rows = {}})}) {
    EXPECT_THAT(well_formed(html).text, HasSubstr("nothing to show"));
    EXPECT_EQ(html.find("<svg"), std::string::npos);
  }
}

TEST(Charts, EscapeHostileNames) {
  const LineChart lines{.text = {.id = "a", .title = kHostile, .note = kHostile, .x_label = kHostile, .y_label = kHostile},
                        .series = {{.name = kHostile, .points = {{1, 1}}}},
                        .has_marks = true};
  const BarChart bars{.text = chart_text(), .categories = {kHostile}, .series = {{.name = kHostile, .values = {1}}}};
  const StackedChart stack{.text = chart_text(), .parts = {kHostile}, .rows = {{.name = kHostile, .values = {1}}}};
  for (const std::string& html : {to_html(lines), to_html(bars), to_html(stack)}) {
    const Markup markup = well_formed(html);
    EXPECT_EQ(count(markup, "script"), 0U);
    EXPECT_THAT(markup.text, HasSubstr("</title><script>alert('x')</script>\"&\xEF\xBF\xBD\xEF\xBF\xBD"));
  }
}

TEST(Charts, TellManySeriesApart) {
  LineChart chart{.text = chart_text(), .series = {}};
  std::set<std::string> looks;
  for (size_t i = 0; i < 16; ++i) {
    chart.series.push_back({.name = "series " + std::to_string(i), .points = {{0, 1}, {1, 2}}});
    looks.insert(series_class(i) + dashes(i));
  }
  EXPECT_EQ(looks.size(), 16U);
  EXPECT_EQ(count(well_formed(to_html(chart)), "li"), 16U);
}

}  // namespace
}  // namespace foretoken::cli
