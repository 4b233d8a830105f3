#include "apps/foretoken/report/chart_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "apps/foretoken/report/html.h"

namespace foretoken::cli {
namespace {

constexpr size_t kNumColours = 8;  // of page_style.h
constexpr std::array<std::string_view, 4> kDashes{"", "7 3", "2 3", "10 3 2 3"};

std::string legend(const std::vector<std::string>& names, KeyKind key) {
  std::string out = "<ul class=\"legend\">\n";
  for (size_t i = 0; i < names.size(); ++i) {
    out +=
        fmt::format(R"(<li><svg class="key {}" viewBox="0 0 28 12" width="28" height="12" aria-hidden="true">)", series_class(i));
    if (key == KeyKind::kBox) {
      out += R"(<rect class="fill" x="8" y="1" width="12" height="10"/>)";
    } else {
      out += fmt::format(R"(<path class="line" d="M1 6H27"{}/>)", dashes(i));
      if (key == KeyKind::kMarkedLine) out += mark(i, 14.0, 6.0, "");
    }
    out += "</svg> " + escaped(names[i]) + "</li>\n";
  }
  return out + "</ul>\n";
}

}  // namespace

Ticks ticks_up_to(double max, int most) {
  const double rough = max / most;
  const double magnitude = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10.0 * magnitude;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * magnitude < rough * (1.0 - 1e-9)) continue;
    step = factor * magnitude;
    break;
  }
  return {.step = step, .count = std::max(1, static_cast<int>(std::ceil(max / step - 1e-9)))};
}

std::string tick_text(double value) { return fmt::format("{:.6g}", value); }

std::string coordinate(double value) { return fmt::format("{:g}", std::round(value * 10.0) / 10.0); }

double Plot::x(double value) const { return kLeft + (kWidth - kLeft - kRight) * (value - x_min) / (x_max - x_min); }

double Plot::y(double value) const { return kHeight - kBottom - (kHeight - kTop - kBottom) * value / y_max; }

std::string y_axis(const Plot& plot, const Ticks& ticks, const ChartText& text) {
  std::string out;
  for (int i = 0; i <= ticks.count; ++i) {
    const double value = ticks.step * i;
    out += fmt::format("<path class=\"{}\" d=\"M{} {}H{}\"/>\n", i == 0 ? "axis" : "grid", coordinate(Plot::kLeft),
                       coordinate(plot.y(value)), coordinate(Plot::kWidth - Plot::kRight));
    out += fmt::format("<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", coordinate(Plot::kLeft - 8.0),
                       coordinate(plot.y(value) + 4.0), tick_text(value));
  }
  const double middle = (Plot::kTop + Plot::kHeight - Plot::kBottom) / 2.0;
  out += fmt::format("<text class=\"label\" transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                     coordinate(middle), escaped(text.y_label));
  out += fmt::format("<text class=\"label\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                     coordinate((Plot::kLeft + Plot::kWidth - Plot::kRight) / 2.0), coordinate(Plot::kHeight - 8.0),
                     escaped(text.x_label));
  return out;
}

std::string x_label(double x, std::string_view text) {
  return fmt::format("<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", coordinate(x),
                     coordinate(Plot::kHeight - Plot::kBottom + 17.0), escaped(text));
}

std::string series_class(size_t series_idx) { return fmt::format("s{}", series_idx % kNumColours); }

std::string dashes(size_t series_idx) {
  // Neighbours differ, and so do series of the same colour.
  const std::string_view pattern = kDashes[(series_idx + series_idx / kNumColours) % kDashes.size()];
  return pattern.empty() ? std::string() : fmt::format(" stroke-dasharray=\"{}\"", pattern);
}

std::string mark(size_t series_idx, double x, double y, std::string_view tip) {
  constexpr std::array<std::string_view, 4> kShapes{"M-4 0A4 4 0 1 1 4 0A4 4 0 1 1 -4 0Z", "M-4 -4H4V4H-4Z", "M0 -5L5 4H-5Z",
                                                    "M0 -5.5L5.5 0L0 5.5L-5.5 0Z"};
  const std::string title = tip.empty() ? std::string() : element("title", tip);
  return fmt::format("<path class=\"fill\" transform=\"translate({} {})\" d=\"{}\">{}</path>", coordinate(x), coordinate(y),
                     kShapes[series_idx % kShapes.size()], title);
}

std::string figure(const ChartText& text, const std::vector<std::string>& names, KeyKind key, const std::string& picture,
                   double height) {
  std::string out = fmt::format("<figure id=\"{}\">\n<figcaption>{} {}</figcaption>\n", text.id,
                                element("strong", text.title + "."), element("span", text.note));
  if (picture.empty()) return out + "<p class=\"nothing\">There is nothing to show.</p>\n</figure>\n";
  out += legend(names, key);
  out += fmt::format(
      "<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{}-title {}-note\">\n<title "
      "id=\"{}-title\">{}</title>\n<desc id=\"{}-note\">{}</desc>\n",
      coordinate(Plot::kWidth), coordinate(height), text.id, text.id, text.id, escaped(text.title), text.id, escaped(text.note));
  return out + picture + "</svg>\n</figure>\n";
}

}  // namespace foretoken::cli
