#include "src/graph/words.h"

#include <algorithm>
#include <array>

#include "tensor_tracer/graph/places.h"

namespace tt::graph {
namespace {

constexpr std::array<std::string_view, 8> kCalls = {"vector", "file", "noise", "saved",
                                                    "param",  "when", "save",  "skip"};
constexpr std::array<std::string_view, 9> kConstants = {"layer", "torch", "inf",   "nan", "pi",
                                                        "e",     "True",  "False", "None"};

std::vector<std::string> make_place_words() {
  std::vector<std::string> words = {"layers"};
  for (const PlaceKind& kind : place_kinds()) {
    if (kind.in_layer) continue;
    words.push_back(kind.path.substr(0, kind.path.find('.')));
    words.push_back(kind.point);
  }
  return words;
}

}  // namespace

bool is_special_call(std::string_view name) {
  return std::ranges::find(kCalls, name) != kCalls.end();
}

const std::vector<std::string>& place_words() {
  static const std::vector<std::string> words = make_place_words();
  return words;
}

bool is_reserved(std::string_view name) {
  return is_special_call(name) || std::ranges::find(kConstants, name) != kConstants.end() ||
         std::ranges::find(place_words(), name) != place_words().end() ||
         std::ranges::find(place_kinds(), name, &PlaceKind::point) != place_kinds().end();
}

}  // namespace tt::graph
