#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/data/text_corpus.h"
#include "tensor_tracer/data/tokenizer.h"

namespace tt::data {

/// A text as token ids. The tokens of the response are known; those before the first of them are
/// the prompt.
struct PromptedText {
  std::vector<std::int64_t> ids;
  std::vector<std::pair<std::int64_t, std::int64_t>> response;  // tokens [first, second), in order

  auto length() const { return static_cast<std::int64_t>(ids.size()); }
  /// Number of tokens of the prompt; 0 if the text has no prompt.
  std::int64_t prompt_length() const { return response.empty() ? length() : response[0].first; }
  /// Drops the tokens behind the first `most`.
  void cut(std::int64_t most);
};

/// How texts become tokens.
struct PromptedTextOptions {
  Tokenizer tokenize = bytes_of;
  std::string tokenizer_sha256 = {};  // of tokenizer.json; empty: bytes
  std::int64_t vocab_size = 0;        // of the model
  std::string option = {};            // that errors name
  bool takes_generated = false;       // as of read_line()
};

/// The texts of a file, one after another, without a copy of the file in memory. A file `.jsonl`
/// has an object on each line (read_line): a "text" alone is a response without a prompt; prompt
/// and response become tokens separately. A folder that `prepare` wrote has the response in the
/// tokens of the role assistant. Of any other file each line is a text. Blank lines are ignored. No
/// token is added. Thread: one.
class PromptedTexts {
 public:
  /// Error: the file cannot be read, or is prepared data of another tokenizer or with an id that
  /// the model does not have.
  static base::Result<std::unique_ptr<PromptedTexts>> open(const std::string& path,
                                                           const PromptedTextOptions& options);
  virtual ~PromptedTexts() = default;

  /// nullopt: no text is left. Error: the next text cannot be read; it names the line.
  virtual base::Result<std::optional<PromptedText>> next() = 0;
  /// Begins again with the first text.
  virtual void rewind() = 0;
  /// The text that next() returned last, for a person.
  virtual std::string place() const = 0;
  /// That text as a line of JSONL: the object of the line; of a line of text {"text": …}; of
  /// prepared data {"document": …}, its number from 1.
  virtual nlohmann::ordered_json object() const = 0;
  /// SHA-256 of the file in hex; of a folder, that of the hashes of its files in hex. Reads all.
  std::string sha256() const;

 protected:
  explicit PromptedTexts(std::shared_ptr<const TextCorpus> files) : files_(std::move(files)) {}
  const TextCorpus& files() const { return *files_; }

 private:
  const std::shared_ptr<const TextCorpus> files_;
};

}  // namespace tt::data
