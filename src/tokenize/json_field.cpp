#include "src/tokenize/json_field.h"

#include "src/tokenize/unicode.h"
#include "tensor_tracer/tokenize/tokenizer.h"

namespace tt::tokenize {
namespace {

constexpr int kMaxDepth = 16;
constexpr std::size_t kMaxShownBytes = 400;

void add_parts(const JsonField& part, const std::string& list_key, int depth,
               std::vector<JsonField>& parts) {
  if (part.is_null()) return;
  if (part["type"].text() != "Sequence") return parts.push_back(part);
  if (depth == kMaxDepth) return part.refuse("Sequences are nested too deeply");
  for (const JsonField& one : part[list_key].items()) add_parts(one, list_key, depth + 1, parts);
}

// For people: the text of a file may be long and hold control characters.
std::string shown(const std::string& text) {
  std::string made = text;
  if (made.size() > kMaxShownBytes) made = made.substr(0, kMaxShownBytes) + "...";
  for (char& byte : made)
    if (static_cast<unsigned char>(byte) < ' ' || byte == 0x7F) byte = '?';
  return replace_invalid(made);
}

}  // namespace

JsonField JsonField::operator[](const std::string& key) const {
  static const nlohmann::json missing;
  std::string path = path_.empty() ? key : path_ + "." + key;
  const auto found = value_->is_object() ? value_->find(key) : value_->end();
  return {value_->is_object() && found != value_->end() ? *found : missing, std::move(path),
          *problem_};
}

std::string JsonField::text() const {
  if (value_->is_string()) return value_->get<std::string>();
  refuse("a text is needed");
  return {};
}

bool JsonField::flag(bool fallback) const {
  if (value_->is_boolean()) return value_->get<bool>();
  if (!value_->is_null()) refuse("true or false is needed");
  return fallback;
}

std::int64_t JsonField::number() const {
  if (value_->is_number_unsigned()) {
    const auto number = value_->get<std::uint64_t>();
    if (number <= static_cast<std::uint64_t>(kMaxTokenId)) return static_cast<std::int64_t>(number);
  }
  refuse("a whole number from 0 to " + std::to_string(kMaxTokenId) + " is needed");
  return 0;
}

std::vector<JsonField> JsonField::items() const {
  std::vector<JsonField> items;
  if (!value_->is_array())
    refuse("a list is needed");
  else
    for (const auto& item : *value_)
      items.emplace_back(item, path_ + "[" + std::to_string(items.size()) + "]", *problem_);
  return items;
}

void JsonField::refuse(const std::string& message) const {
  if (!*problem_) *problem_ = base::invalid_argument(shown(path_), shown(message));
}

std::vector<JsonField> sequence_of(const JsonField& part, const std::string& list_key) {
  std::vector<JsonField> parts;
  add_parts(part, list_key, 0, parts);
  return parts;
}

}  // namespace tt::tokenize
