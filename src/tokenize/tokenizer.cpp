#include "tensor_tracer/tokenize/tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/tokenize/added_tokens.h"
#include "src/tokenize/bpe.h"
#include "src/tokenize/decoder.h"
#include "src/tokenize/normalizer.h"
#include "src/tokenize/pre_tokenizer.h"
#include "src/tokenize/template.h"
#include "src/tokenize/unicode.h"

namespace tt::tokenize {

struct Tokenizer::Parts {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe model;
  AddedTokens added;
  Template special;
  Decoder decoder;
  std::vector<std::string> tokens;  // by id
  std::vector<bool> is_special;     // by id

  static Parts read(const JsonField& file);
  void list_tokens();
  base::Status encode_section(std::string_view text, bool begins_text,
                              std::vector<std::int64_t>& ids) const;
  base::Status encode_words(std::string_view text, bool begins_text,
                            std::vector<std::int64_t>& ids) const;
};

Tokenizer::Parts Tokenizer::Parts::read(const JsonField& file) {
  Parts parts;
  parts.normalizer = Normalizer::read(file["normalizer"]);
  parts.pre_tokenizer = PreTokenizer::read(file["pre_tokenizer"]);
  parts.model = Bpe::read(file["model"]);
  parts.added = AddedTokens::read(file["added_tokens"], parts.normalizer, parts.model);
  parts.special = Template::read(file["post_processor"]);
  parts.decoder = Decoder::read(file["decoder"]);
  parts.list_tokens();
  for (const auto& ids : {parts.special.before, parts.special.after})
    for (const std::int64_t id : ids)
      if (id >= std::ssize(parts.tokens))
        file["post_processor"].refuse("the template adds the id " + std::to_string(id) +
                                      ", which no token has");
  return parts;
}

void Tokenizer::Parts::list_tokens() {
  tokens = model.tokens();
  is_special.resize(tokens.size());
  for (const AddedToken& one : added.tokens()) {
    const auto id = static_cast<std::size_t>(one.id);
    if (id >= tokens.size()) {
      tokens.resize(id + 1);
      is_special.resize(id + 1);
    }
    tokens[id] = one.content;
    is_special[id] = one.is_special;
  }
}

base::Status Tokenizer::Parts::encode_section(std::string_view text, bool begins_text,
                                              std::vector<std::int64_t>& ids) const {
  const auto normalized = normalizer.apply(text);
  if (!normalized) return normalized.error();
  for (const Section& section : added.split(normalized.value(), true)) {
    if (section.token) {
      ids.push_back(*section.token);
      continue;
    }
    const auto part = std::string_view(normalized.value())
                          .substr(section.range.begin, section.range.end - section.range.begin);
    auto done = encode_words(part, begins_text && section.range.begin == 0, ids);
    if (!done) return done;
  }
  return {};
}

base::Status Tokenizer::Parts::encode_words(std::string_view text, bool begins_text,
                                            std::vector<std::int64_t>& ids) const {
  Pieces pieces{std::string(text), {{0, text.size()}}, begins_text};
  if (auto done = pre_tokenizer.apply(pieces); !done) return done;
  for (std::size_t i = 0; i < pieces.ranges.size(); ++i) model.encode(pieces[i], ids);
  return {};
}

Tokenizer::Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

base::Result<Tokenizer> Tokenizer::read(std::string_view json, std::string file) {
  if (json.size() > kMaxFileBytes)
    return base::invalid_argument(std::move(file), "the file is longer than 256 MiB");
  const auto value = nlohmann::json::parse(json.begin(), json.end(), nullptr, false);
  if (!value.is_object())
    return base::invalid_argument(std::move(file), "the file is not a JSON object");
  Problem problem;
  auto parts = std::make_shared<const Parts>(Parts::read(JsonField(value, {}, problem)));
  if (!problem) return Tokenizer(std::move(parts));
  problem->where = file + (problem->where.empty() ? "" : ", " + problem->where);
  return *std::move(problem);
}

std::int64_t Tokenizer::vocab_size() const {
  return static_cast<std::int64_t>(parts_->tokens.size());
}

base::Result<std::vector<std::int64_t>> Tokenizer::encode(std::string_view text,
                                                          bool add_special_tokens) const {
  if (const auto invalid = find_invalid_byte(text)) {
    return base::Error{.code = "invalid_argument",
                       .message = "the text is not UTF-8 at byte " + std::to_string(*invalid)};
  }
  std::vector<std::int64_t> ids;
  if (add_special_tokens) ids = parts_->special.before;
  for (const Section& section : parts_->added.split(text, false)) {
    if (section.token) {
      ids.push_back(*section.token);
      continue;
    }
    const auto part = text.substr(section.range.begin, section.range.end - section.range.begin);
    const auto done = parts_->encode_section(part, section.range.begin == 0, ids);
    if (!done) return done.error();
  }
  const auto& after = parts_->special.after;
  if (add_special_tokens) ids.insert(ids.end(), after.begin(), after.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int64_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  for (const std::int64_t id : ids) {
    const std::string_view text = token(id);
    if (text.empty() || (skip_special_tokens && parts_->is_special[static_cast<std::size_t>(id)]))
      continue;
    tokens.emplace_back(text);
  }
  return parts_->decoder.apply(std::move(tokens));
}

std::string_view Tokenizer::token(std::int64_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  return parts_->tokens[static_cast<std::size_t>(id)];
}

}  // namespace tt::tokenize
