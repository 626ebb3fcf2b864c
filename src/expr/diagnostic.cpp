#include "tensor_tracer/expr/diagnostic.h"

#include <algorithm>

#include "src/expr/text.h"
#include "tensor_tracer/base/nearest.h"

namespace tt::expr {
namespace {

// Characters of a long line that are shown before and after the problem.
constexpr std::size_t kShownBefore = 60;
constexpr std::size_t kShownAfter = 60;

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return !continues_character(byte); }));
}

// The length of the UTF-8 sequence that starts at `at`; 0 if the sequence is not well-formed.
std::size_t sequence_length(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if (!continues_character(text[at + i])) return 0;
  const auto second = static_cast<unsigned char>(text[at + 1]);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool outside = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return overlong || outside ? 0 : length;
}

// Keeps each byte or replaces it by one other byte, so that offsets stay the same.
std::string printable(std::string_view line) {
  std::string shown(line);
  const bool broken = find_bad_utf8(line) != std::string_view::npos;
  for (char& byte : shown) {
    const auto code = static_cast<unsigned char>(byte);
    if (byte == '\t')
      byte = ' ';
    else if (code < 0x20 || code == 0x7F || (broken && code >= 0x80))
      byte = '?';
  }
  return shown;
}

struct Line {
  std::size_t number = 1;
  std::size_t begin = 0;
  std::size_t end = 0;
};

Line line_of(std::string_view source, std::size_t offset) {
  Line line;
  for (std::size_t i = 0; i < offset; ++i) {
    if (source[i] == '\n') {
      ++line.number;
      line.begin = i + 1;
    }
  }
  line.end = std::min(source.find('\n', line.begin), source.size());
  return line;
}

std::size_t move_to_character(std::string_view text, std::size_t offset) {
  while (offset > 0 && offset < text.size() && continues_character(text[offset])) --offset;
  return offset;
}

// The name of the innermost node of another format; null if no such node contains the span.
const std::string* find_origin(const Ast& ast, Span span) {
  const Origin* innermost = nullptr;
  for (const Origin& origin : ast.origins()) {
    const auto length = [](const Span& of) { return of.end - of.begin; };
    const bool contains = origin.span.begin <= span.begin && span.end <= origin.span.end;
    if (!contains || length(span) == 0) continue;
    if (innermost == nullptr || length(origin.span) < length(innermost->span)) innermost = &origin;
  }
  return innermost == nullptr ? nullptr : &innermost->name;
}

// `name`: the name of the node that the source was written for; null if a user wrote the source.
base::Error make_error(std::string_view source, const Problem& problem, const std::string* name) {
  const std::size_t offset = std::min<std::size_t>(problem.span.begin, source.size());
  const Line line = line_of(source, offset);
  const std::string text = printable(source.substr(line.begin, line.end - line.begin));
  const std::size_t caret = std::min(offset - line.begin, text.size());
  const std::size_t span_end = std::max<std::size_t>(problem.span.end, offset + 1);
  const std::size_t caret_end = std::clamp(span_end - line.begin, caret, text.size());
  const std::string where = "line " + std::to_string(line.number) + ", column " +
                            std::to_string(count_characters(text.substr(0, caret)) + 1);
  const std::size_t first =
      move_to_character(text, caret > kShownBefore ? caret - kShownBefore : 0);
  const std::size_t last = move_to_character(text, std::min(text.size(), caret + kShownAfter));
  const std::size_t marked =
      count_characters(std::string_view(text).substr(caret, std::min(caret_end, last) - caret));
  const std::string dots = first > 0 ? "..." : "";
  const std::string line_shown =
      dots + text.substr(first, last - first) + (last < text.size() ? "..." : "");
  const std::string indent(dots.size() + count_characters(text.substr(first, caret - first)), ' ');
  const std::string tail(marked > 1 ? marked - 1 : 0, '~');
  return {name == nullptr ? "invalid_expression" : "invalid_graph",
          printable(problem.what) + " (" + (name == nullptr ? where : "node " + *name) + ")\n  " +
              line_shown + "\n  " + indent + "^" + tail,
          name == nullptr ? where : *name, printable(problem.remedy)};
}

}  // namespace

std::size_t find_bad_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = sequence_length(text, at);
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

base::Error to_error(std::string_view source, const Problem& problem) {
  return make_error(source, problem, nullptr);
}

base::Error to_error(const Ast& ast, const Problem& problem) {
  return make_error(ast.source(), problem, find_origin(ast, problem.span));
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string nearest = base::nearest_word(word, known);
  return nearest.empty() ? "" : ", did you mean \"" + nearest + "\"?";
}

}  // namespace tt::expr
