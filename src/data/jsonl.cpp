#include "tensor_tracer/data/jsonl.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "src/data/line_cursor.h"

namespace tt::data {
namespace {

using nlohmann::json;

constexpr const char* kForms =
    "write an object with \"text\", or with \"prompt\" and \"response\", on each line";

base::Error wrong_line(const std::string& place, const std::string& message,
                       const std::string& remedy = kForms) {
  return base::invalid_argument("--data-path", place + " " + message, remedy);
}

// JSON in UTF-8, or the reason and the place of the error.
base::Result<json> parse_line(std::string_view text, const std::string& place) {
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    const auto byte = std::min(error.byte, text.size());
    const std::string_view near = text.substr(byte > 9 ? byte - 9 : 0, 18);
    const bool is_number = near.find("NaN") != near.npos || near.find("Infinity") != near.npos;
    return wrong_line(place, fmt::format("is not JSON in UTF-8: the error is at byte {}", byte),
                      is_number ? "JSON has no NaN and no Infinity: write null there" : kForms);
  } catch (const json::out_of_range&) {
    return wrong_line(place, "has a number that is too large for 64 bits", "write it as a text");
  }
}

// A member that must be a text.
base::Result<std::string> text_of(const json& line, const char* key, const std::string& place) {
  const auto found = line.find(key);
  if (!found->is_string())
    return wrong_line(place, fmt::format("has a \"{}\" that is not a text", key));
  const auto& text = found->get_ref<const std::string&>();
  if (text.empty()) return wrong_line(place, fmt::format("has an empty \"{}\"", key));
  return text;
}

// Collects the tokens of all documents.
class Collector {
 public:
  explicit Collector(const JsonlReader& reader) : reader_(reader) {}

  base::Status add(const LineTexts& texts, const std::string& place) {
    if (auto status = add_text(texts.prompt, false, place); !status) return status;
    if (auto status = add_text(texts.counted, true, place); !status) return status;
    if (reader_.end) add_token(*reader_.end, true);
    const auto end = static_cast<std::int64_t>(ids_.size());
    const std::int64_t length = end - tokens_.begin.back();
    if (length < 2)
      return wrong_line(place, fmt::format("has {} token, which leaves none to predict", length),
                        "write more text, or leave the line out");
    tokens_.begin.push_back(end);
    return {};
  }

  MemoryDocuments::Tokens take() {
    const auto options = at::device(at::kCPU);
    const auto size = static_cast<std::int64_t>(ids_.size());
    tokens_.ids = at::empty({size}, options.dtype(at::kInt));
    std::ranges::copy(ids_, tokens_.ids.mutable_data_ptr<std::int32_t>());
    if (!has_prompt_) return std::move(tokens_);
    tokens_.counted = at::empty({size}, options.dtype(at::kBool));
    std::ranges::copy(counted_, tokens_.counted.mutable_data_ptr<bool>());
    return std::move(tokens_);
  }

 private:
  void add_token(std::int64_t id, bool counts) {
    ids_.push_back(static_cast<std::int32_t>(id));
    counted_.push_back(counts);
  }

  base::Status add_text(const std::string& text, bool counts, const std::string& place) {
    if (text.empty()) return {};
    const auto ids = reader_.tokenize(text);
    if (!ids) return wrong_line(place, "cannot become tokens: " + ids.error().message);
    for (const std::int64_t id : ids.value()) add_token(id, counts);
    has_prompt_ = has_prompt_ || !counts;
    return {};
  }

  const JsonlReader& reader_;
  MemoryDocuments::Tokens tokens_;
  std::vector<std::int32_t> ids_;
  std::vector<bool> counted_;
  bool has_prompt_ = false;
};

// The tokens of a response that `generate` wrote. Its text has no special tokens, and a character
// that the last token leaves incomplete is replaced there.
base::Result<std::optional<std::vector<std::int64_t>>> generated_ids(const json& line,
                                                                     const std::string& place) {
  const auto found = line.find("token_ids");
  if (found == line.end()) return std::optional<std::vector<std::int64_t>>();
  const auto is_id = [](const json& one) { return one.is_number_unsigned(); };
  if (!found->is_array() || !std::ranges::all_of(*found, is_id))
    return wrong_line(place, "has \"token_ids\" that are not ids", "leave them out");
  auto ids = found->get<std::vector<std::int64_t>>();
  if (!ids.empty() && line.value("finish_reason", json()) == "stop") ids.pop_back();
  return std::optional(std::move(ids));
}

}  // namespace

base::Result<LineTexts> read_line(std::string_view text, const std::string& place,
                                  const std::string& file, bool takes_generated) {
  const auto parsed = parse_line(text, place);
  if (!parsed) return parsed.error();
  const json& line = parsed.value();
  if (!line.is_object()) return wrong_line(place, "is not a JSON object");
  const bool has_text = line.contains("text");
  const bool has_prompt = line.contains("prompt"), has_response = line.contains("response");
  if (line.contains("messages")) {
    return wrong_line(place, "holds \"messages\", which need the model's chat template",
                      "run python -m tensor_tracer prepare " + file +
                          " --tokenizer DIR --out DIR, and give the folder of --out");
  }
  const bool is_generated = takes_generated && has_prompt && has_text;
  if (is_generated && has_response)
    return wrong_line(place, "has both \"text\" and \"response\"", "keep one of them");
  if (has_text && (has_prompt || has_response) && !is_generated)
    return wrong_line(place, "has both \"text\" and a prompt or a response", "keep one of them");
  if (has_prompt && !has_response && !is_generated)
    return wrong_line(place, "has a \"prompt\" and no \"response\"");
  if (has_response && !has_prompt) return wrong_line(place, "has a \"response\" and no \"prompt\"");
  if (!has_text && !has_prompt) return wrong_line(place, "has no \"text\" and no \"prompt\"");
  LineTexts texts;
  if (has_prompt) {
    auto prompt = text_of(line, "prompt", place);
    if (!prompt) return prompt.error();
    texts.prompt = std::move(prompt).value();
  }
  if (is_generated) {
    auto ids = generated_ids(line, place);
    if (!ids) return ids.error();
    texts.counted_ids = std::move(ids).value();
    if (texts.counted_ids || line["text"] == "") return texts;
  }
  auto counted = text_of(line, has_text ? "text" : "response", place);
  if (!counted) return counted.error();
  texts.counted = std::move(counted).value();
  return texts;
}

base::Result<std::shared_ptr<const MemoryDocuments>> JsonlReader::read(
    const TextCorpus& files, const std::vector<std::string>& names) const {
  Collector all(*this);
  std::vector<std::pair<std::int32_t, std::int32_t>> origins;
  for (std::size_t file = 0; file < names.size(); ++file) {
    LineCursor lines(files.file(static_cast<std::int64_t>(file)));
    while (const auto line = lines.next()) {
      const std::string place = lines.place(names[file]);
      const auto texts = read_line(*line, place, names[file]);
      if (!texts) return texts.error();
      if (auto status = all.add(texts.value(), place); !status) return status.error();
      origins.emplace_back(static_cast<std::int32_t>(file),
                           static_cast<std::int32_t>(lines.number()));
    }
  }
  if (origins.empty())
    return base::invalid_argument("--data-path", "\"" + names.front() + "\" holds no document",
                                  kForms);
  return std::make_shared<const MemoryDocuments>(all.take(), names, std::move(origins));
}

}  // namespace tt::data
