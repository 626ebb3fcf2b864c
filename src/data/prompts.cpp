#include "tensor_tracer/data/prompts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "tensor_tracer/base/byte_order_mark.h"
#include "tensor_tracer/base/private_file.h"

namespace tt::data {
namespace {

// The text in one line of a JSONL file.
base::Result<std::string> text_of_json(const std::string& line) {
  const auto value = nlohmann::json::parse(line, nullptr, false);
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object())
    for (const char* key : {"prompt", "text"})
      if (value.contains(key) && value[key].is_string()) return value[key].get<std::string>();
  base::Error error{"invalid_argument",
                    "has no text under \"prompt\" or \"text\"",
                    {},
                    R"(write {"prompt": "a text"})"};
  if (value.is_object() && value.contains("messages")) {
    error.message = "has messages of a chat";
    error.remedy =
        "render them with the chat template of the tokenizer, and give the text as "
        "\"prompt\"";
  }
  return error;
}

// Viewers get the texts as JSON, which can hold only UTF-8.
bool is_utf8(const std::string& text) {
  try {
    static_cast<void>(nlohmann::json(text).dump());
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

std::size_t count_tokens(const PromptSet& set) {
  return std::transform_reduce(
      set.prompts.begin(), set.prompts.end(), std::size_t{0}, std::plus<>(),
      [](const Prompt& prompt) { return prompt.tokens.size(); });
}

}  // namespace

std::int64_t PromptSet::longest() const {
  std::int64_t longest = 0;
  for (const Prompt& prompt : prompts) longest = std::max(longest, prompt.length());
  return longest;
}

std::int64_t PromptSet::shortest() const {
  std::int64_t shortest = longest();
  for (const Prompt& prompt : prompts) shortest = std::min(shortest, prompt.length());
  return shortest;
}

at::Tensor PromptSet::tokens() const {
  const std::int64_t width = longest();
  at::Tensor all = at::zeros({static_cast<std::int64_t>(prompts.size()), width},
                             at::device(at::kCPU).dtype(at::kLong));
  auto* row = all.mutable_data_ptr<std::int64_t>();
  for (const Prompt& prompt : prompts) {
    std::ranges::copy(prompt.tokens, row);
    row += width;
  }
  return all;
}

at::Tensor PromptSet::targets() const {
  const at::Tensor all = tokens();
  at::Tensor next = at::full_like(all, -1);
  for (std::int64_t row = 0; row < all.size(0); ++row) {
    const std::int64_t known = prompts[static_cast<std::size_t>(row)].length() - 1;
    next[row].narrow(0, 0, known).copy_(all[row].narrow(0, 1, known));
  }
  return next;
}

at::Tensor PromptSet::is_text() const {
  at::Tensor mask = at::zeros_like(tokens(), at::kBool);
  for (std::size_t row = 0; row < prompts.size(); ++row)
    mask[static_cast<std::int64_t>(row)].narrow(0, 0, prompts[row].length()).fill_(true);
  return mask;
}

base::Result<Prompt> PromptReader::read(const std::string& text, const std::string& subject) const {
  if (text.empty()) {
    return base::invalid_argument(where, subject + " holds no text",
                                  "write at least one character");
  }
  if (!is_utf8(text)) return base::invalid_argument(where, subject + " is not UTF-8", "use UTF-8");
  auto tokens = tokenize(text);
  if (!tokens) return tokens.error();
  Prompt prompt{text, std::move(tokens).value()};
  if (prompt.tokens.empty())
    return base::invalid_argument(where, subject + " has no tokens", "write more");
  if (prompt.length() > seq_length) {
    return base::invalid_argument(where,
                                  subject + " has " + std::to_string(prompt.length()) +
                                      " tokens, the sequence length is " +
                                      std::to_string(seq_length),
                                  "shorten it");
  }
  return prompt;
}

base::Result<PromptSet> PromptReader::read_file(const std::string& path) const {
  const std::filesystem::path file(path);
  auto bytes = base::read_small_file(path, limits.max_file_bytes);
  if (!bytes) {
    return base::invalid_argument(where, "\"" + path + "\" " + bytes.error().message,
                                  "give a file of a few short texts");
  }
  PromptSet set;
  set.name = file.stem().string();
  const bool is_json = file.extension() == ".jsonl";
  std::istringstream in(std::string(base::without_byte_order_mark(bytes.value())));
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    const std::string place = "line " + std::to_string(number) + " of \"" + path + "\"";
    const auto text = is_json ? text_of_json(line) : line;
    if (!text)
      return base::invalid_argument(where, place + " " + text.error().message, text.error().remedy);
    auto prompt = read(text.value(), place);
    if (!prompt) return prompt.error();
    set.prompts.push_back(std::move(prompt).value());
  }
  if (set.prompts.empty())
    return base::invalid_argument(where, "\"" + path + "\" holds no prompt",
                                  "write one on each line");
  if (set.prompts.size() > limits.max_prompts) {
    return base::invalid_argument(where,
                                  "\"" + path + "\" holds " + std::to_string(set.prompts.size()) +
                                      " prompts, more than " + std::to_string(limits.max_prompts),
                                  "keep fewer, or make several files");
  }
  return set;
}

base::Status check_prompt_sets(const std::vector<PromptSet>& sets, const std::string& where) {
  std::size_t tokens = 0;
  std::set<std::string_view> names;
  for (const PromptSet& set : sets) {
    tokens += count_tokens(set);
    if (set.is_removed || names.insert(set.name).second) continue;
    return base::invalid_argument(where, "there are two prompt sets \"" + set.name + "\"",
                                  "choose another name, or remove the first");
  }
  if (names.size() > kMaxPromptSets) {
    return base::invalid_argument(where,
                                  std::to_string(names.size()) + " prompt sets are more than " +
                                      std::to_string(kMaxPromptSets),
                                  "remove one, or join some");
  }
  if (sets.size() > kMaxNumberedSets) {
    return base::invalid_argument(
        where,
        "the run has had " + std::to_string(kMaxNumberedSets) + " prompt sets, which is the limit",
        "keep a prompt that was removed, with the same name and text");
  }
  if (tokens > kMaxPromptTokens) {
    return base::invalid_argument(where,
                                  "the prompt sets would have " + std::to_string(tokens) +
                                      " tokens, removed sets included; the limit is " +
                                      std::to_string(kMaxPromptTokens),
                                  "keep fewer prompts, or shorter ones");
  }
  return {};
}

nlohmann::json describe(const std::vector<PromptSet>& sets, std::int64_t interval) {
  nlohmann::json described = nlohmann::json::array();
  for (const PromptSet& set : sets) {
    nlohmann::json texts = nlohmann::json::array(), tokens = nlohmann::json::array();
    for (const Prompt& prompt : set.prompts) {
      texts.push_back(prompt.text);
      tokens.push_back(prompt.tokens);
    }
    described.push_back({{"name", set.name},
                         {"interval", interval},
                         {"prompts", std::move(texts)},
                         {"tokens", std::move(tokens)}});
    if (set.is_removed) described.back()["removed"] = true;
  }
  return described;
}

nlohmann::json to_json(const std::vector<PromptSet>& sets) {
  nlohmann::json all = nlohmann::json::array();
  for (const PromptSet& set : sets) {
    nlohmann::json prompts = nlohmann::json::array();
    for (const Prompt& prompt : set.prompts) prompts.push_back({prompt.text, prompt.tokens});
    all.push_back({set.name, std::move(prompts), set.is_removed});
  }
  return all;
}

std::vector<PromptSet> prompt_sets_of(const nlohmann::json& sets) {
  std::vector<PromptSet> all;
  for (const nlohmann::json& set : sets) {
    PromptSet& one = all.emplace_back(PromptSet{set.at(0), {}, set.at(2)});
    for (const nlohmann::json& prompt : set.at(1))
      one.prompts.push_back({prompt.at(0), prompt.at(1)});
  }
  return all;
}

}  // namespace tt::data
