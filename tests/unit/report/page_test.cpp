// Pages: well-formed, self-contained, whatever text they are given.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/foretoken/report/page.h"
#include "tests/unit/report/markup.h"

namespace foretoken::cli {
namespace {

using test::count;
using test::Markup;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Page, HoldsTogetherWithHostileText) {
  const std::string hostile = "<b onload=\"x\">&copy; ]]> --> </style></script>";
  Page page(hostile);
  page.heading(hostile);
  page.paragraph(hostile);
  page.code(hostile);
  page.table({.caption = hostile, .header = {"", hostile}, .rows = {{hostile, "1"}, {"2", hostile}}});
  page.definitions({{hostile, hostile}});
  page.figures({"<figure></figure>", "<figure></figure>"});
  const std::string html = page.to_html();
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>"));
  const Markup markup = test::read_markup(html);
  EXPECT_THAT(markup.error, IsEmpty());
  EXPECT_EQ(count(markup, "b"), 0U);
  EXPECT_EQ(count(markup, "title"), 1U);
  EXPECT_EQ(count(markup, "td"), 2U);
  EXPECT_EQ(count(markup, "figure"), 2U);
  size_t found = 0;
  for (size_t at = markup.text.find(hostile); at != std::string::npos; at = markup.text.find(hostile, at + 1)) ++found;
  EXPECT_EQ(found, 11U) << "all that was given, the title twice";
}

TEST(Page, NeedsNothingFromElsewhereAndHasBothSchemes) {
  const std::string html = Page("x").to_html();
  EXPECT_THAT(test::read_markup(html).links, IsEmpty());
  for (const char* outside : {"http:", "https:", "url(", "@import", "<script", "<link"}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(html, HasSubstr("lang=\"en\""));
}

}  // namespace
}  // namespace foretoken::cli
