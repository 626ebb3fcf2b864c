#include "tensor_tracer/data/prompts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "tensor_tracer/base/private_file.h"

namespace tt::data {
namespace {

constexpr const char* kFlag = "--monitor-prompts";

// The text in one line of a JSONL file.
std::optional<std::string> text_of_json(const std::string& line) {
  const auto value = nlohmann::json::parse(line, nullptr, false);
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_object()) return std::nullopt;
  for (const char* key : {"prompt", "text"}) {
    if (value.contains(key) && value[key].is_string()) return value[key].get<std::string>();
  }
  return std::nullopt;
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

base::Status check_text(const std::string& text, const std::string& place,
                        std::int64_t seq_length) {
  if (text.empty()) {
    return base::invalid_argument(kFlag, place + " holds no text",
                                  R"(write {"prompt": "…"} on each line)");
  }
  if (!is_utf8(text)) {
    return base::invalid_argument(kFlag, place + " is not UTF-8", "save the file as UTF-8");
  }
  if (static_cast<std::int64_t>(text.size()) > seq_length) {
    return base::invalid_argument(kFlag,
                                  place + " has " + std::to_string(text.size()) +
                                      " tokens, --seq-length is " + std::to_string(seq_length),
                                  "shorten it");
  }
  return {};
}

}  // namespace

at::Tensor PromptSet::tokens() const {
  const auto longest = std::ranges::max_element(texts, {}, &std::string::size)->size();
  const auto rows = static_cast<std::int64_t>(texts.size());
  const auto width = static_cast<std::int64_t>(longest);
  at::Tensor bytes = at::zeros({rows, width}, at::device(at::kCPU).dtype(at::kByte));
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::string& text = texts[static_cast<std::size_t>(row)];
    std::memcpy(bytes.data_ptr<std::uint8_t>() + row * width, text.data(), text.size());
  }
  return bytes.to(at::kLong);
}

at::Tensor PromptSet::targets() const {
  const at::Tensor bytes = tokens();
  at::Tensor next = at::full_like(bytes, -1);
  for (std::int64_t row = 0; row < bytes.size(0); ++row) {
    const auto known = static_cast<std::int64_t>(texts[static_cast<std::size_t>(row)].size()) - 1;
    next[row].narrow(0, 0, known).copy_(bytes[row].narrow(0, 1, known));
  }
  return next;
}

base::Result<PromptSet> read_prompts(const std::string& path, std::int64_t seq_length,
                                     const PromptLimits& limits) {
  const std::filesystem::path file(path);
  auto bytes = base::read_small_file(path, limits.max_file_bytes);
  if (!bytes) {
    return base::invalid_argument(kFlag, "\"" + path + "\" " + bytes.error().message,
                                  "give a file of a few short texts");
  }
  PromptSet set;
  set.name = file.stem().string();
  const bool is_json = file.extension() == ".jsonl";
  std::istringstream in(std::move(bytes).value());
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    const std::string place = "line " + std::to_string(number) + " of \"" + path + "\"";
    const auto text = is_json ? text_of_json(line) : line;
    if (auto status = check_text(text.value_or(""), place, seq_length); !status) {
      return status.error();
    }
    set.texts.push_back(*text);
  }
  if (set.texts.empty())
    return base::invalid_argument(kFlag, "\"" + path + "\" holds no prompt",
                                  "write one on each line");
  if (set.texts.size() > limits.max_prompts) {
    return base::invalid_argument(kFlag,
                                  "\"" + path + "\" holds " + std::to_string(set.texts.size()) +
                                      " prompts, more than " + std::to_string(limits.max_prompts),
                                  "keep fewer, or make several files");
  }
  return set;
}

}  // namespace tt::data
