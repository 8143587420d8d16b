#include "plot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <vector>

namespace minfer::bench {
namespace {

struct Axis {
  const char* title;
  uint32_t app::Workload::*field;
};
constexpr Axis kAxes[] = {{"sequences together", &app::Workload::batch},
                          {"positions held before", &app::Workload::depth},
                          {"prompt tokens", &app::Workload::prompt},
                          {"generated tokens", &app::Workload::generate}};

struct Point {
  double x = 0;
  app::Summary speed;
};
using Lines = std::map<std::string, std::vector<Point>>;

// Colours that stay apart for most kinds of colour blindness (Okabe and Ito).
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#e69f00", "#56b4e9", "#000000", "#f0e442"};

constexpr double kWidth = 1000, kHeight = 480;
constexpr double kLeft = 80, kRight = 280, kTop = 20, kBottom = 60;  // the names stand at the right
constexpr int kTicks = 5;

Axis pick_axis(std::span<const Record> records) {
  for (const Axis& axis : kAxes) {
    const bool differs = std::any_of(records.begin(), records.end(), [&](const Record& r) {
      return r.test.*axis.field != records[0].test.*axis.field;
    });
    if (differs) return axis;
  }
  return kAxes[0];
}

/// A test without what the axis shows: "pp512 on cpu:0".
std::string line_name(const Record& r, const Axis& axis, bool with_model) {
  app::Workload test = r.test;
  const bool is_length =
      axis.field == &app::Workload::prompt || axis.field == &app::Workload::generate;
  std::string name;
  if (is_length) {
    // Without its length a test is known by its kind.
    name = test.beside ? "mix" : test.prompt == 0 ? "tg" : test.generate == 0 ? "pp" : "pp+tg";
    if (test.depth > 0) name += fmt::format(" @ d{}", test.depth);
    if (test.batch > 1) name += fmt::format(" x{}", test.batch);
  } else {
    test.*axis.field = axis.field == &app::Workload::batch ? 1 : 0;
    name = test.name();
  }
  if (with_model) name += " " + std::filesystem::path(r.subject->model).stem().string();
  return fmt::format("{} on {}{}", name, fmt::join(r.devices, "+"),
                     r.fallbacks.empty() ? "" : " *");
}

Lines make_lines(std::span<const Record> records, const Axis& axis) {
  std::set<std::string> models;
  for (const Record& r : records) models.insert(r.subject->model);
  Lines lines;
  for (const Record& r : records)
    lines[line_name(r, axis, models.size() > 1)].push_back(
        {static_cast<double>(r.test.*axis.field), app::summarize(r.speeds())});
  for (auto& [name, points] : lines)
    std::sort(points.begin(), points.end(),
              [](const Point& a, const Point& b) { return a.x < b.x; });
  return lines;
}

/// The next of 1, 2, 5, 10, 20, … that is at least x.
double round_up(double x) {
  const double power = std::pow(10.0, std::floor(std::log10(std::max(x, 1e-9))));
  for (const double step : {1.0, 2.0, 5.0})
    if (step * power >= x) return step * power;
  return 10 * power;
}

/// From values to places on the page.
struct Scale {
  double max_x = 1, max_y = 1;
  double x(double v) const { return kLeft + v / max_x * (kWidth - kLeft - kRight); }
  double y(double v) const { return kHeight - kBottom - v / max_y * (kHeight - kTop - kBottom); }
};

Scale scale_of(const Lines& lines) {
  double max_x = 0;
  double max_y = 0;
  for (const auto& [name, points] : lines) {
    for (const Point& p : points) {
      max_x = std::max(max_x, p.x);
      max_y = std::max(max_y, p.speed.range.high);
    }
  }
  return {std::max(max_x, 1.0), round_up(max_y / kTicks) * kTicks};
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else if (static_cast<unsigned char>(c) >= ' ')
      out += c;
  }
  return out;
}

std::string frame(const Scale& scale, const Lines& lines, const Axis& axis) {
  std::string out = fmt::format("<path d=\"M{0} {1}V{2}H{3}\" fill=\"none\" stroke=\"#444\"/>\n",
                                kLeft, kTop, kHeight - kBottom, kWidth - kRight);
  for (int i = 0; i <= kTicks; ++i) {
    const double v = scale.max_y * i / kTicks;
    out += fmt::format(
        "<path d=\"M{0} {1:.1f}H{2}\" stroke=\"#ddd\"/><text x=\"{3}\" y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5:g}</text>\n",
        kLeft, scale.y(v), kWidth - kRight, kLeft - 6, scale.y(v) + 4, v);
  }
  std::set<double> xs;
  for (const auto& [name, points] : lines)
    for (const Point& p : points) xs.insert(p.x);
  for (const double x : xs)
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>\n",
                       scale.x(x), kHeight - kBottom + 18, x);
  out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                     (kLeft + kWidth - kRight) / 2, kHeight - 14, axis.title);
  out += fmt::format(
      "<text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">"
      "tokens/s</text>\n",
      (kTop + kHeight - kBottom) / 2);
  return out;
}

std::string line_svg(const std::vector<Point>& points, const Scale& scale, const char* colour) {
  std::string path;
  std::string marks;
  for (const Point& p : points) {
    const double x = scale.x(p.x);
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, scale.y(p.speed.median));
    marks += fmt::format(
        "<path d=\"M{0:.1f} {1:.1f}V{2:.1f}\"/><circle cx=\"{0:.1f}\" cy=\"{3:.1f}\" "
        "r=\"3\"/>",
        x, scale.y(p.speed.range.low), scale.y(p.speed.range.high), scale.y(p.speed.median));
  }
  return fmt::format(
      "<g stroke=\"{0}\" fill=\"{0}\"><path d=\"{1}\" fill=\"none\" "
      "stroke-width=\"2\"/>{2}</g>\n",
      colour, path, marks);
}

}  // namespace

std::string plot_svg(std::span<const Record> records) {
  const Axis axis = pick_axis(records);
  const Lines lines = make_lines(records, axis);
  const Scale scale = scale_of(lines);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, kHeight);
  out += frame(scale, lines, axis);
  size_t i = 0;
  for (const auto& [name, points] : lines) {
    const char* colour = kColours[i % std::size(kColours)];
    out += line_svg(points, scale, colour);
    out += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text>\n", kWidth - kRight + 16,
                       kTop + 14 + 16 * static_cast<double>(i), colour, escaped(name));
    ++i;
  }
  return out + "</svg>\n";
}

}  // namespace minfer::bench
