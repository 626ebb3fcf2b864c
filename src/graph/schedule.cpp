#include <algorithm>
#include <charconv>
#include <limits>

#include "src/graph/steps.h"

namespace tt::graph {
namespace {

using expr::kNoNode;
using expr::NodeId;

constexpr std::size_t kMaxTextBytes = 1024;

enum Member { kPhase, kPrompts, kSteps, kEvery, kLayers, kRows, kTokens, kTokenText, kPositions };

constexpr std::pair<std::string_view, Positions> kPositionNames[] = {
    {"all", Positions::kAll},
    {"prompt", Positions::kPrompt},
    {"response", Positions::kResponse},
    {"published", Positions::kPublished}};

const Signature kWhen{
    "when(phase=\"train\", steps=\"100-200\", layers=\"8-12\", rows=\"0-3\")",
    {"phase", "prompts", "steps", "every", "layers", "rows", "tokens", "token_text", "positions"},
    0,
    0};

// The items between the commas, without blanks around them.
std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> items;
  while (true) {
    const auto comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const auto first = std::min(item.find_first_not_of(' '), item.size());
    const auto last = item.find_last_not_of(' ') + 1;
    items.emplace_back(item.substr(first, last - std::min(first, last)));
    if (comma == std::string_view::npos) return items;
    text.remove_prefix(comma + 1);
  }
}

std::optional<std::int64_t> to_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Accepts "3", "1-4", "100-" and "-1".
std::optional<std::pair<std::int64_t, std::int64_t>> to_range(const std::string& item) {
  if (const auto single = to_number(item)) return std::pair(*single, *single);
  const auto dash = item.find('-', 1);
  if (dash == std::string::npos) return std::nullopt;
  const auto first = to_number(std::string_view(item).substr(0, dash));
  const std::string_view behind = std::string_view(item).substr(dash + 1);
  const auto last =
      behind.empty() ? std::optional(std::numeric_limits<std::int64_t>::max()) : to_number(behind);
  if (!first || !last || *first < 0 || *last < *first) return std::nullopt;
  return std::pair(*first, *last);
}

class ScheduleReader {
 public:
  ScheduleReader(Reading& reading, Schedule& schedule) : reading_(reading), schedule_(schedule) {}

  bool read(NodeId call) {
    given_ = read_arguments(reading_, call, kWhen);
    return !given_.empty() && read_phase() && read_prompts() && read_every() &&
           read_ranges(kSteps, "steps", false, schedule_.steps) && read_layers() &&
           read_ranges(kRows, "rows", false, schedule_.rows) &&
           read_ranges(kTokens, "tokens", true, schedule_.tokens) &&
           (!has(kTokenText) || read_string(reading_, given_[kTokenText], "token_text",
                                            kMaxTextBytes, schedule_.token_text)) &&
           read_positions();
  }

 private:
  bool has(Member member) const { return given_[member] != kNoNode; }
  expr::Span span(Member member) const { return reading_.node(given_[member]).span; }

  bool read_phase() {
    if (!has(kPhase)) return true;
    std::string text;
    if (!read_string(reading_, given_[kPhase], "phase", kMaxTextBytes, text)) return false;
    const auto phases = split(text);
    const auto names = [&](const char* phase) {
      return std::ranges::find(phases, phase) != phases.end();
    };
    const bool is_all = phases.size() == 1 && names("all");
    const bool is_known = std::ranges::all_of(
        phases, [](const std::string& phase) { return phase == "train" || phase == "eval"; });
    if (!is_all && !is_known) {
      return reading_.fail(
          span(kPhase), "there is no phase " + in_quotes(text),
          "write \"train\", \"eval\", \"train,eval\" or \"all\"; for prompts there "
          "is prompts=\"...\"");
    }
    schedule_.in_train = is_all || names("train");
    schedule_.in_eval = is_all || names("eval");
    if (is_all && reading_.model().no_prompts.empty()) schedule_.prompt_sets = {"*"};
    return true;
  }

  bool read_prompts() {
    if (!has(kPrompts)) return true;
    if (const std::string& why = reading_.model().no_prompts; !why.empty())
      return reading_.fail(span(kPrompts), why, "leave prompts out");
    if (!schedule_.prompt_sets.empty()) {
      return reading_.fail(span(kPrompts), "phase=\"all\" names every prompt set already",
                           "take prompts away, or write phase=\"train,eval\"");
    }
    std::string text;
    if (!read_string(reading_, given_[kPrompts], "prompts", kMaxTextBytes, text)) return false;
    schedule_.prompt_sets = split(text);
    for (const std::string& name : schedule_.prompt_sets)
      if (!check_prompt_set(name)) return false;
    if (!has(kPhase)) schedule_.in_train = false;
    return true;
  }

  bool check_prompt_set(const std::string& name) {
    const auto known = reading_.model().prompt_sets.names();
    if (name == "*" || std::ranges::find(known, name) != known.end()) return true;
    std::string remedy = "there is \"*\" for all";
    for (const std::string& set : known) remedy += ", " + in_quotes(set);
    return reading_.fail(
        span(kPrompts), "there is no prompt set " + in_quotes(name) + expr::suggestion(name, known),
        known.empty() ? "the run has none: keep a prompt, or start it with --monitor-prompts"
                      : remedy);
  }

  bool read_every() {
    if (!has(kEvery)) return true;
    const auto every = reading_.integer(given_[kEvery]);
    if (!every || *every < 1)
      return reading_.fail(span(kEvery), "every is a whole number from 1 on", "write every=2");
    schedule_.every = *every;
    return true;
  }

  bool read_ranges(Member member, const std::string& what, bool may_be_negative, Ranges& ranges) {
    if (!has(member)) return true;
    std::string text;
    if (!read_string(reading_, given_[member], what, kMaxTextBytes, text)) return false;
    for (const std::string& item : split(text)) {
      const auto range = to_range(item);
      if (range && (may_be_negative || range->first >= 0)) {
        ranges.push_back(*range);
        continue;
      }
      return reading_.fail(
          span(member), in_quotes(item) + " in " + what + " is neither a number nor a range",
          may_be_negative ? "write \"3\", \"1-4,8\", \"100-\", or \"-1\" for the last"
                          : "write \"3\", \"1-4,8\" or \"100-\"");
    }
    return true;
  }

  bool read_layers() {
    Ranges ranges;
    if (!read_ranges(kLayers, "layers", false, ranges)) return false;
    const int num_layers = reading_.model().num_layers();
    const std::string last = std::to_string(num_layers);
    for (auto [first, end] : ranges) {
      if (end == std::numeric_limits<std::int64_t>::max()) end = num_layers;
      if (first < 1 || end > num_layers || first > end) {
        return reading_.fail(span(kLayers), "layers count from 1 to " + last,
                             "write layers=\"1-" + last + "\" for all");
      }
      for (std::int64_t layer = first; layer <= end; ++layer)
        schedule_.layers.push_back(static_cast<int>(layer));
    }
    std::ranges::sort(schedule_.layers);
    schedule_.layers.erase(std::unique(schedule_.layers.begin(), schedule_.layers.end()),
                           schedule_.layers.end());
    return true;
  }

  bool read_positions() {
    if (!has(kPositions)) return true;
    std::string text;
    if (!read_string(reading_, given_[kPositions], "positions", kMaxTextBytes, text)) return false;
    const auto known = std::ranges::find(kPositionNames, std::string_view(text),
                                         &std::pair<std::string_view, Positions>::first);
    if (known == std::end(kPositionNames)) {
      return reading_.fail(span(kPositions), "there are no positions " + in_quotes(text),
                           "write \"all\", \"prompt\", \"response\" or \"published\"");
    }
    schedule_.positions = known->second;
    const std::string& why = reading_.model().no_responses;
    if (schedule_.positions == Positions::kAll || why.empty()) return true;
    return reading_.fail(span(kPositions), why, "leave positions out");
  }

  Reading& reading_;
  Schedule& schedule_;
  std::vector<NodeId> given_;
};

}  // namespace

bool read_schedule(Reading& reading, NodeId call, Schedule& schedule) {
  return ScheduleReader(reading, schedule).read(call);
}

}  // namespace tt::graph
