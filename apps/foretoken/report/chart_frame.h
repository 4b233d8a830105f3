// What all charts have in common: the figure around them, axes, and the looks of a series.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/foretoken/report/chart.h"

namespace foretoken::cli {

/// Round numbers from 0 to at least `max`.
struct Ticks {
  double step = 1.0;
  int count = 1;  // steps

  [[nodiscard]] double end() const { return step * count; }
};
/// At most `most` steps of 1, 2 or 5 times a power of ten. `max` above 0.
[[nodiscard]] Ticks ticks_up_to(double max, int most = 6);

/// A number of an axis, without digits that say nothing.
[[nodiscard]] std::string tick_text(double value);
/// A coordinate.
[[nodiscard]] std::string coordinate(double value);

/// Where values lie inside the picture.
struct Plot {
  static constexpr double kWidth = 640.0;
  static constexpr double kHeight = 300.0;
  static constexpr double kLeft = 58.0;
  static constexpr double kRight = 16.0;
  static constexpr double kTop = 12.0;
  static constexpr double kBottom = 46.0;

  double x_min = 0.0;
  double x_max = 1.0;
  double y_max = 1.0;

  [[nodiscard]] double x(double value) const;
  [[nodiscard]] double y(double value) const;
};

/// Horizontal lines with their numbers, and the names of both axes.
[[nodiscard]] std::string y_axis(const Plot& plot, const Ticks& ticks, const ChartText& text);
/// A number or name under the x axis.
[[nodiscard]] std::string x_label(double x, std::string_view text);

/// Class that gives a series its colour.
[[nodiscard]] std::string series_class(size_t series_idx);
/// Dashes of a line: ` stroke-dasharray="..."`, empty for a full one.
[[nodiscard]] std::string dashes(size_t series_idx);
/// A mark of the series' shape; `tip` shows when pointed at, and may be empty.
[[nodiscard]] std::string mark(size_t series_idx, double x, double y, std::string_view tip);

enum class KeyKind : uint8_t { kLine, kMarkedLine, kBox };

/// The whole figure: caption, legend of `names`, picture of `height`. Without `picture` it says that there is nothing to show.
[[nodiscard]] std::string figure(const ChartText& text, const std::vector<std::string>& names, KeyKind key,
                                 const std::string& picture, double height = Plot::kHeight);

}  // namespace foretoken::cli
