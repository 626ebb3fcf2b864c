#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/data/tokenizer.h"
#include "tensor_tracer/intervene/context.h"
#include "tensor_tracer/tokenize/tokenizer.h"

namespace tt::cli {

/// How a run turns text into tokens. Ranks other than 0 have only the texts.
struct RunTokenizer {
  std::shared_ptr<const tokenize::Tokenizer> file;  // null: each byte is a token
  std::optional<std::int64_t> end_of_text;          // the token after each file of the text
  std::set<std::int64_t> stop_ids;                  // the tokens that end a response
  std::string hash;    // of the file and of the token that ends a text; empty: bytes
  std::string sha256;  // of the file; empty: bytes, or a rank other than 0
  std::string notice;  // empty: none
  /// The text of each id; null: not known, because they are too long for the run's facts.
  std::shared_ptr<const intervene::TokenTexts> texts = intervene::texts_of_bytes();

  /// For prompts, with the special tokens of the file's template.
  data::Tokenizer for_prompts() const;
  /// The text of ids, without special tokens, in UTF-8. Only on rank 0.
  std::string text_of(const std::vector<std::int64_t>& ids) const;
  /// "tokenizer" of docs/protocol.md, "The run's facts".
  nlohmann::json facts() const;
};

/// Reads the file of --tokenizer, by default that of --hf-model. Then `config.data.tokenizer` is
/// the path or "byte". A model without --hf-model and --vocab-size gets the vocabulary of the file.
/// `given`: the options as the user wrote them, by name. Error: the file cannot be read, or the
/// model has fewer rows than the file has ids. Global rank 0.
base::Result<RunTokenizer> read_tokenizer(config::TrainConfig& config, const nlohmann::json& given);

/// The folder of a tokenizer, from a value of --tokenizer other than "byte".
std::filesystem::path tokenizer_folder(const std::string& tokenizer);

/// Gives every rank the texts, the size of the vocabulary and the tokens that end a response.
/// Collective over `world`.
void share_tokenizer(RunTokenizer& tokenizer, config::TrainConfig& config,
                     const comm::ProcessGroup& world);

}  // namespace tt::cli
