#include "src/data/prompted_lines.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tt::data {

PromptedLines::PromptedLines(std::shared_ptr<const TextCorpus> files, std::string path,
                             bool is_json, PromptedTextOptions options)
    : PromptedTexts(std::move(files)),
      path_(std::move(path)),
      is_json_(is_json),
      options_(std::move(options)),
      lines_(this->files().file(0)) {}

base::Error PromptedLines::wrong(base::Error error) const {
  error.where = options_.option;
  return error;
}

base::Status PromptedLines::add(const std::string& text, PromptedText& to) const {
  if (text.empty()) return {};
  const auto ids = options_.tokenize(text);
  if (!ids) {
    return base::invalid_argument(options_.option,
                                  place() + " cannot become tokens: " + ids.error().message,
                                  "write it in UTF-8");
  }
  to.ids.insert(to.ids.end(), ids.value().begin(), ids.value().end());
  return {};
}

base::Status PromptedLines::add_counted(const LineTexts& texts, PromptedText& to) const {
  if (!texts.counted_ids) return add(texts.counted, to);
  for (const std::int64_t id : *texts.counted_ids) {
    if (id < options_.vocab_size) continue;
    return base::invalid_argument(options_.option,
                                  place() + " has the token id " + std::to_string(id) +
                                      ", and the model " + std::to_string(options_.vocab_size) +
                                      " ids",
                                  "give responses of this model");
  }
  std::ranges::copy(*texts.counted_ids, std::back_inserter(to.ids));
  return {};
}

nlohmann::ordered_json PromptedLines::object() const {
  if (is_json_) return nlohmann::ordered_json::parse(line_);
  return {{"text", line_}};
}

base::Result<std::optional<PromptedText>> PromptedLines::next() {
  const auto line = lines_.next();
  if (!line) return std::optional<PromptedText>();
  line_ = line->substr(0, line->find_last_not_of('\r') + 1);
  LineTexts texts;
  if (is_json_) {
    auto read = read_line(line_, place(), path_, options_.takes_generated);
    if (!read) return wrong(read.error());
    texts = std::move(read).value();
  } else {
    texts.counted = line_;
  }
  PromptedText made;
  if (auto status = add(texts.prompt, made); !status) return status.error();
  const std::int64_t begin = made.length();
  if (auto status = add_counted(texts, made); !status) return status.error();
  if (begin < made.length()) made.response.emplace_back(begin, made.length());
  return std::optional(std::move(made));
}

}  // namespace tt::data
