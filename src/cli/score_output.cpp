#include "src/cli/score_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <system_error>

namespace tt::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kBins = 20;
constexpr std::size_t kBarWidth = 40;

std::vector<double> known_scores(const std::vector<double>& values) {
  std::vector<double> known = values;
  std::erase_if(known, [](double value) { return std::isnan(value); });
  return known;
}

ordered_json number_or_null(double value) {
  return std::isnan(value) ? ordered_json() : ordered_json(value);
}

// Edges of the bins, and the scores in each; a bin holds its lower edge, the last one both.
json histogram_of(const std::vector<double>& known) {
  const auto [least, most] = std::ranges::minmax(known);
  const double width = (most - least) / static_cast<double>(kBins);
  std::vector<std::int64_t> counts(kBins);
  for (const double value : known) {
    const auto bin = width > 0 ? static_cast<std::size_t>((value - least) / width) : 0;
    ++counts[std::min(bin, kBins - 1)];
  }
  std::vector<double> edges;
  for (std::size_t i = 0; i <= kBins; ++i)
    edges.push_back(i == kBins ? most : least + width * static_cast<double>(i));
  return {{"edges", edges}, {"counts", counts}};
}

base::Error cannot_write(const std::string& path) {
  return {"storage", "cannot be written", path, "check the folder and the space on its disk"};
}

// The text of a file as it is written.
std::string scored_line(const data::PromptedTexts& texts, const Scores& scores, std::size_t index,
                        std::int64_t rank) {
  ordered_json line = texts.object();
  line[scores.label] = number_or_null(scores.values[index]);
  if (!scores.base.empty()) {
    line["projection"] = number_or_null(scores.own[index]);
    line["base_projection"] = number_or_null(scores.base[index]);
  }
  line["rank"] = rank > 0 ? ordered_json(rank) : ordered_json();
  return line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

base::Status write_lines(const std::string& path, data::PromptedTexts& texts, const Scores& scores,
                         std::int64_t dropped) {
  const std::vector<std::int64_t> ranks = ranks_of(scores.values);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  for (std::size_t index = 0; index < ranks.size(); ++index) {
    const auto text = texts.next();
    if (!text) return text.error();
    if (ranks[index] == 0 || ranks[index] > dropped)
      out << scored_line(texts, scores, index, ranks[index]);
  }
  out.close();
  return out ? base::Status() : cannot_write(path);
}

}  // namespace

std::vector<std::int64_t> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(
      order, [&](std::size_t index) { return std::isnan(values[index]); });
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t index) { return values[index]; });
  std::vector<std::int64_t> ranks(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) ranks[order[i]] = static_cast<std::int64_t>(i) + 1;
  return ranks;
}

base::Status write_scores(const std::string& path, data::PromptedTexts& texts, const Scores& scores,
                          std::int64_t dropped) {
  const std::string partial = path + ".partial";
  auto status = write_lines(partial, texts, scores, dropped);
  std::error_code error;
  if (status) std::filesystem::rename(partial, path, error);
  if (status && error) status = cannot_write(path);
  if (!status) std::filesystem::remove(partial, error);
  return status;
}

json describe_scores(const Scores& scores) {
  const std::vector<double> known = known_scores(scores.values);
  json facts = {{"score", scores.label}, {"texts", scores.values.size()}, {"scored", known.size()}};
  if (known.empty()) return facts;
  const auto count = static_cast<double>(known.size());
  const double mean = std::accumulate(known.begin(), known.end(), 0.0) / count;
  double squares = 0;
  for (const double value : known) squares += (value - mean) * (value - mean);
  facts["mean"] = mean;
  facts["standard_deviation"] = std::sqrt(squares / count);
  facts["histogram"] = histogram_of(known);
  return facts;
}

void print_scores(const json& facts) {
  fmt::print("{} of {} texts\n", facts["score"].get<std::string>(), facts["texts"].dump());
  if (!facts.contains("histogram")) return;
  fmt::print("  mean {:.6g}, standard deviation {:.6g}\n", facts["mean"].get<double>(),
             facts["standard_deviation"].get<double>());
  const auto edges = facts["histogram"]["edges"].get<std::vector<double>>();
  const auto counts = facts["histogram"]["counts"].get<std::vector<std::size_t>>();
  const std::size_t most = *std::ranges::max_element(counts);
  for (std::size_t bin = 0; bin < counts.size(); ++bin) {
    const std::string bar((counts[bin] * kBarWidth + most - 1) / most, '#');
    fmt::print("  {:>11.5g} to {:>11.5g}  {:<40} {}\n", edges[bin], edges[bin + 1], bar,
               counts[bin]);
  }
}

}  // namespace tt::cli
