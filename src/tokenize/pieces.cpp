#include "src/tokenize/pieces.h"

namespace tt::tokenize {
namespace {

struct Part {
  Range range;
  bool is_match = false;
};

// The matches and the text between them.
void list_parts(const std::vector<Range>& matches, std::size_t size, bool invert,
                std::vector<Part>& parts) {
  parts.clear();
  std::size_t end = 0;
  for (const Range& match : matches) {
    if (match.begin > end) parts.push_back({{end, match.begin}, invert});
    parts.push_back({match, !invert});
    end = match.end;
  }
  if (size > end) parts.push_back({{end, size}, invert});
}

// Whether a part continues the piece before it.
bool joins_previous(const std::vector<Part>& parts, std::size_t index, SplitBehavior behavior) {
  if (index == 0) return false;
  const bool before = parts[index - 1].is_match, now = parts[index].is_match;
  switch (behavior) {
    case SplitBehavior::kRemoved:
    case SplitBehavior::kIsolated:
      return false;
    case SplitBehavior::kContiguous:
      return before == now;
    case SplitBehavior::kMergedWithPrevious:
      return now && !before;
    case SplitBehavior::kMergedWithNext:
      return before && !now;
  }
  return false;
}

}  // namespace

base::Status split(Pieces& pieces, const Finder& find, SplitBehavior behavior, bool invert) {
  std::vector<Range> ranges, matches;
  std::vector<Part> parts;
  for (std::size_t i = 0; i < pieces.ranges.size(); ++i) {
    const std::size_t begin = pieces.ranges[i].begin;
    if (auto found = find(pieces[i], matches); !found) return found;
    list_parts(matches, pieces[i].size(), invert, parts);
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const Range range{begin + parts[k].range.begin, begin + parts[k].range.end};
      if (joins_previous(parts, k, behavior))
        ranges.back().end = range.end;
      else if (!parts[k].is_match || behavior != SplitBehavior::kRemoved)
        ranges.push_back(range);
    }
  }
  std::erase_if(ranges, [](const Range& range) { return range.begin == range.end; });
  pieces.begins_text =
      pieces.begins_text && !ranges.empty() && ranges.front().begin == pieces.ranges.front().begin;
  pieces.ranges = std::move(ranges);
  return {};
}

void rewrite(Pieces& pieces, const std::function<void(std::size_t index, std::string_view piece,
                                                      std::string& made)>& rewrite) {
  std::string made;
  made.reserve(pieces.text.size() + pieces.text.size() / 4);
  for (std::size_t i = 0; i < pieces.ranges.size(); ++i) {
    const std::size_t begin = made.size();
    rewrite(i, pieces[i], made);
    pieces.ranges[i] = {begin, made.size()};
  }
  pieces.text = std::move(made);
}

}  // namespace tt::tokenize
