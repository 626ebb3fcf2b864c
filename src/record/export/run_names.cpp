#include "src/record/export/run_names.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "tensor_tracer/protocol/json_members.h"

namespace tt::record {
namespace {

using nlohmann::json;
using protocol::RecordCompressor;

// The list `member` of an object; empty if it has none.
json list_of(const json& object, const char* member) {
  const json list = object.is_object() ? object.value(member, json::array()) : json::array();
  return list.is_array() ? list : json::array();
}

bool has_bytes_for_tokens(const json& facts) {
  const json tokenizer = facts.is_object() ? facts.value("tokenizer", json()) : json();
  return text_of(tokenizer, "kind") == "byte" || tokenizer.is_null();
}

std::string dtype_name(protocol::Dtype dtype) {
  constexpr const char* kNames[] = {"", "f64", "f32", "f16", "bf16", "i32", "i64", "u8"};
  const auto number = static_cast<std::size_t>(dtype);
  return number > 0 && number < std::size(kNames) ? kNames[number]
                                                  : "dtype_" + std::to_string(number);
}

std::string shape_name(const Series& series) {
  std::string text;
  for (const std::uint64_t extent : series.shape) {
    text += (text.empty() ? "" : "x") + std::to_string(extent);
  }
  return text.empty() ? "scalar" : text;
}

// Names come from outside, and end up as paths in an archive and groups of a page.
std::string one_word(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' ' || c == '/' || c == '\\' || c == 0x7f; }, '_');
  return text;
}

void add_word(SeriesName& name, const std::string& word, const std::string& value = "") {
  const bool first = name.array.empty();
  name.array += (first ? "" : ".") + word + (value.empty() ? "" : "." + value);
  // TensorBoard groups by what stands before a slash.
  const std::string singular = word == "layers" ? "layer" : word;
  name.tag += (first ? "" : "/") + singular + (value.empty() ? "" : "_" + value);
}

bool is_numbers(RecordCompressor compressor) {
  return compressor == RecordCompressor::kNone || compressor == RecordCompressor::kTile;
}

SeriesName plain_name(const Series& series, const RunNames& names) {
  SeriesName name;
  add_word(name, one_word(names.point(series.point)));
  if (series.layer != 0) {
    add_word(name, "layers", std::to_string(series.layer));
  }
  if (series.direction != protocol::RecordDirection::kValue) {
    add_word(name, direction_name(series.direction));
  }
  if (series.phase != protocol::RecordPhase::kTrain) {
    add_word(name, phase_name(series.phase));
  }
  if (series.prompt_set != 0) {
    add_word(name, "prompts", one_word(names.prompt_set(series.prompt_set)));
  }
  if (!is_numbers(series.compressor)) {
    add_word(name, compressor_name(series.compressor));
  }
  return name;
}

// What may tell series of one plain name apart, and the word for it.
struct Trait {
  const char* word;
  std::function<std::string(const Series&)> value;
};

const std::vector<Trait>& traits() {
  static const std::vector<Trait> all = {
      {"flag", [](const Series& s) { return std::to_string(s.point); }},
      {"set", [](const Series& s) { return std::to_string(s.prompt_set); }},
      {"entry", [](const Series& s) { return std::to_string(s.entry); }},
      {"data", [](const Series& s) { return std::to_string(s.data_rank); }},
      {"", [](const Series& s) { return compressor_name(s.compressor); }},
      {"", [](const Series& s) { return dtype_name(s.dtype); }},
      {"", shape_name}};
  return all;
}

void distinguish(const std::vector<Series>& series, const std::vector<std::size_t>& alike,
                 std::vector<SeriesName>& names) {
  for (const Trait& trait : traits()) {
    const std::string first = trait.value(series[alike.front()]);
    if (std::ranges::all_of(alike, [&](auto i) { return trait.value(series[i]) == first; })) {
      continue;
    }
    for (const std::size_t i : alike) {
      const std::string value = trait.value(series[i]);
      const bool has_word = *trait.word != '\0';
      add_word(names[i], has_word ? trait.word : value, has_word ? value : "");
    }
  }
}

}  // namespace

RunNames::RunNames(const json& facts) {
  for (const json& point : list_of(facts, "points")) {
    const auto flag = natural(point, "flag");
    const std::string name = text_of(point, "name");
    if (!flag || *flag > UINT16_MAX || name.empty()) {
      continue;
    }
    flags_[name] = static_cast<std::uint16_t>(*flag);
    for (const json& dim : list_of(point, "dims")) {
      dims_[static_cast<std::uint16_t>(*flag)].push_back(dim.is_string() ? dim.get<std::string>()
                                                                         : "");
    }
  }
  for (const json& set : list_of(facts, "prompt_sets")) {
    prompt_sets_.push_back(text_of(set, "name"));
    prompt_lengths_.emplace_back();
    for (const json& prompt : list_of(set, "prompts")) {
      if (has_bytes_for_tokens(facts) && prompt.is_string()) {
        prompt_lengths_.back().push_back(prompt.get_ref<const std::string&>().size());
      }
    }
  }
}

std::string RunNames::point(std::uint16_t flag) const {
  const auto known = std::ranges::find_if(flags_, [&](const auto& p) { return p.second == flag; });
  return known != flags_.end() ? known->first : "point_" + std::to_string(flag);
}

std::string RunNames::prompt_set(std::uint32_t number) const {
  if (number == 0) {
    return "";
  }
  const bool known = number <= prompt_sets_.size() && !prompt_sets_[number - 1].empty();
  return known ? prompt_sets_[number - 1] : std::to_string(number);
}

std::vector<std::uint64_t> RunNames::prompt_lengths(std::uint32_t number) const {
  const bool known = number > 0 && number <= prompt_lengths_.size();
  return known ? prompt_lengths_[number - 1] : std::vector<std::uint64_t>{};
}

std::vector<std::string> RunNames::dims(std::uint16_t flag) const {
  const auto known = dims_.find(flag);
  return known != dims_.end() ? known->second : std::vector<std::string>{};
}

std::string compressor_name(RecordCompressor compressor) {
  constexpr const char* kNames[] = {"none", "tile", "empty", "stats", "projection", "topk"};
  const auto number = static_cast<std::size_t>(compressor);
  return number < std::size(kNames) ? kNames[number] : "compressor_" + std::to_string(number);
}

std::string direction_name(protocol::RecordDirection direction) {
  return direction == protocol::RecordDirection::kValue ? "value" : "gradient";
}

std::string phase_name(protocol::RecordPhase phase) {
  return phase == protocol::RecordPhase::kTrain ? "train" : "eval";
}

std::vector<SeriesName> name_series(const std::vector<Series>& series, const RunNames& names) {
  std::vector<SeriesName> out;
  std::map<std::string, std::vector<std::size_t>> by_name;
  for (const Series& one : series) {
    by_name[plain_name(one, names).array].push_back(out.size());
    out.push_back(plain_name(one, names));
  }
  for (const auto& [name, alike] : by_name) {
    if (alike.size() > 1) {
      distinguish(series, alike, out);
    }
  }
  return out;
}

}  // namespace tt::record
