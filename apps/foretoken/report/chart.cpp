#include "apps/foretoken/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/foretoken/report/chart_frame.h"
#include "apps/foretoken/report/html.h"

namespace foretoken::cli {
namespace {

template <class Series>
std::vector<std::string> names_of(const std::vector<Series>& series) {
  std::vector<std::string> names;
  for (const Series& one : series) names.push_back(one.name);
  return names;
}

std::string line_of(const Plot& plot, const LineChart& chart, size_t series_idx) {
  const LineChart::Series& series = chart.series[series_idx];
  std::string path;
  std::string marks;
  for (const auto& [x, y] : series.points) {
    const double shown = std::min(y, plot.y_max);
    path += fmt::format("{}{} {}", path.empty() ? 'M' : 'L', coordinate(plot.x(x)), coordinate(plot.y(shown)));
    const std::string tip = fmt::format("{}: {} at {}", series.name, tick_text(y), tick_text(x));
    if (chart.has_marks) marks += mark(series_idx, plot.x(x), plot.y(shown), tip) + '\n';
  }
  return fmt::format("<g class=\"{}\">\n<path class=\"line\" d=\"{}\"{}>{}</path>\n{}</g>\n", series_class(series_idx), path,
                     dashes(series_idx), element("title", series.name), marks);
}

std::string x_axis(const Plot& plot, const LineChart& chart) {
  std::string out;
  if (chart.has_whole_x) {
    const double step = std::max(1.0, ticks_up_to(plot.x_max, 16).step);
    for (double x = 1.0; x <= plot.x_max; x += step) out += x_label(plot.x(x), tick_text(x));
    return out;
  }
  const Ticks ticks = ticks_up_to(plot.x_max, 8);
  for (int i = 0; i <= ticks.count && ticks.step * i <= plot.x_max; ++i) {
    out += x_label(plot.x(ticks.step * i), tick_text(ticks.step * i));
  }
  return out;
}

/// Draws the bars of one category, `width` wide in all.
std::string bars_of(const Plot& plot, const BarChart& chart, size_t category) {
  const auto count = static_cast<double>(chart.series.size());
  const double left = plot.x(static_cast<double>(category) + 0.1);
  const double width = (plot.x(static_cast<double>(category) + 0.9) - left) / count;
  std::string out;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const double value = chart.series[i].values[category];
    const std::string tip = fmt::format("{}, {}: {}", chart.series[i].name, chart.categories[category], tick_text(value));
    const double y = plot.y(value);
    out += fmt::format("<g class=\"{}\"><rect class=\"fill\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">{}</rect></g>\n",
                       series_class(i), coordinate(left + width * static_cast<double>(i)), coordinate(y),
                       coordinate(std::max(0.5, width - 1.0)), coordinate(plot.y(0.0) - y), element("title", tip));
  }
  return out;
}

std::string stack_of(const StackedChart& chart, const StackedChart::Row& row, double top) {
  constexpr double kBarHeight = 22.0;
  constexpr double kNameHeight = 18.0;
  constexpr double kLabelledShare = 0.07;  // narrower parts have no room for a number
  constexpr double kMargin = 4.0;
  const double total = std::accumulate(row.values.begin(), row.values.end(), 0.0);
  std::string out =
      fmt::format("<text class=\"name\" x=\"{}\" y=\"{}\">{}</text>\n", kMargin, coordinate(top + 13.0), escaped(row.name));
  double x = kMargin;
  for (size_t i = 0; i < row.values.size() && total > 0.0; ++i) {
    const double share = row.values[i] / total;
    const double width = share * (Plot::kWidth - 2.0 * kMargin);
    const std::string percent = fmt::format("{:.1f} %", 100.0 * share);
    const std::string tip = fmt::format("{}, {}: {}", row.name, chart.parts[i], percent);
    out += fmt::format(R"(<g class="{}"><rect class="fill part" x="{}" y="{}" width="{}" height="{}">{}</rect>)", series_class(i),
                       coordinate(x), coordinate(top + kNameHeight), coordinate(width), kBarHeight, element("title", tip));
    if (share >= kLabelledShare) {
      out += fmt::format(R"(<text class="on" x="{}" y="{}" text-anchor="middle">{}</text>)", coordinate(x + width / 2.0),
                         coordinate(top + kNameHeight + 15.5), percent);
    }
    out += "</g>\n";
    x += width;
  }
  return out;
}

}  // namespace

std::string to_html(const LineChart& chart) {
  double x_max = 0.0;
  double y_max = 0.0;
  for (const LineChart::Series& series : chart.series) {
    for (const auto& [x, y] : series.points) {
      x_max = std::max(x_max, x);
      y_max = std::max(y_max, y);
    }
  }
  std::string picture;
  if (x_max > 0.0) {
    const Ticks ticks = ticks_up_to(chart.y_max.value_or(y_max > 0.0 ? y_max : 1.0));
    const double margin = chart.has_whole_x ? 0.5 : 0.0;
    const Plot plot{.x_min = margin, .x_max = x_max + margin, .y_max = ticks.end()};
    picture = y_axis(plot, ticks, chart.text) + x_axis(plot, chart);
    for (size_t i = 0; i < chart.series.size(); ++i) picture += line_of(plot, chart, i);
  }
  return figure(chart.text, names_of(chart.series), chart.has_marks ? KeyKind::kMarkedLine : KeyKind::kLine, picture);
}

std::string to_html(const BarChart& chart) {
  double y_max = 0.0;
  for (const BarChart::Series& series : chart.series) {
    for (const double value : series.values) y_max = std::max(y_max, value);
  }
  std::string picture;
  if (y_max > 0.0) {
    const Ticks ticks = ticks_up_to(y_max);
    const Plot plot{.x_min = 0.0, .x_max = static_cast<double>(chart.categories.size()), .y_max = ticks.end()};
    picture = y_axis(plot, ticks, chart.text);
    for (size_t category = 0; category < chart.categories.size(); ++category) {
      picture += x_label(plot.x(static_cast<double>(category) + 0.5), chart.categories[category]);
      picture += bars_of(plot, chart, category);
    }
  }
  return figure(chart.text, names_of(chart.series), KeyKind::kBox, picture);
}

std::string to_html(const StackedChart& chart) {
  constexpr double kRowHeight = 54.0;
  std::string picture;
  double top = 4.0;
  for (const StackedChart::Row& row : chart.rows) {
    picture += stack_of(chart, row, top);
    top += kRowHeight;
  }
  return figure(chart.text, chart.parts, KeyKind::kBox, picture, top);
}

}  // namespace foretoken::cli
