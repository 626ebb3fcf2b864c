#include "src/graph/words.h"

#include <algorithm>
#include <array>

namespace tt::graph {
namespace {

constexpr std::array<std::string_view, 8> kCalls = {"vector", "file", "noise", "saved",
                                                    "param",  "when", "save",  "skip"};
constexpr std::array<std::string_view, 2> kModules = {"final_norm", "output_layer"};
constexpr std::array<std::string_view, 9> kConstants = {"layer", "torch", "inf",   "nan", "pi",
                                                        "e",     "True",  "False", "None"};

}  // namespace

bool is_module(std::string_view name) {
  return std::ranges::find(kModules, name) != kModules.end();
}

bool is_special_call(std::string_view name) {
  return std::ranges::find(kCalls, name) != kCalls.end();
}

std::vector<std::string> place_words(const points::PlaceTable& places) {
  std::vector<std::string> words = {"layers"};
  for (const points::Place& place : places.rows()) {
    if (place.in_layers()) continue;
    words.push_back(place.path.substr(0, place.path.find('.')));
    words.push_back(place.name);
    for (const std::string& alias : place.aliases)
      words.push_back(alias.substr(0, alias.find('.')));
  }
  for (const auto& [alias, place] : places.outer_aliases())
    words.push_back(alias.substr(0, alias.find('.')));
  return words;
}

bool is_reserved(std::string_view name, const points::PlaceTable& places) {
  const auto words = place_words(places);
  return is_special_call(name) || std::ranges::find(kConstants, name) != kConstants.end() ||
         std::ranges::find(words, name) != words.end() ||
         std::ranges::find(places.rows(), name, &points::Place::name) != places.rows().end();
}

}  // namespace tt::graph
