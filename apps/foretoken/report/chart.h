// Charts of a report page: inline SVG inside a <figure> with its title, what it shows, and a legend. Colours come from the style
// sheet of the page (page_style.h); dashes and marks tell series apart without them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace foretoken::cli {

struct ChartText {
  std::string id{};  // of the figure: letters and hyphens, unique on the page
  std::string title{};
  std::string note{};  // a sentence about what is shown
  std::string x_label{};
  std::string y_label{};
};

/// Lines over a numeric axis.
struct LineChart {
  struct Series {
    std::string name{};
    std::vector<std::pair<double, double>> points{};  // by rising x
  };
  ChartText text;
  std::vector<Series> series{};
  bool has_marks = false;         // a mark at each point
  bool has_whole_x = false;       // x counts something: 1, 2, ...
  std::optional<double> y_max{};  // otherwise what the values need
};

/// For each category a bar of each series.
struct BarChart {
  struct Series {
    std::string name{};
    std::vector<double> values{};  // one per category
  };
  ChartText text;
  std::vector<std::string> categories{};
  std::vector<Series> series{};
};

/// One bar per row, cut into the shares of its parts.
struct StackedChart {
  struct Row {
    std::string name{};
    std::vector<double> values{};  // one per part, not negative
  };
  ChartText text;
  std::vector<std::string> parts{};
  std::vector<Row> rows{};
};

/// A chart without values says so instead.
[[nodiscard]] std::string to_html(const LineChart& chart);
[[nodiscard]] std::string to_html(const BarChart& chart);
[[nodiscard]] std::string to_html(const StackedChart& chart);

}  // namespace foretoken::cli
