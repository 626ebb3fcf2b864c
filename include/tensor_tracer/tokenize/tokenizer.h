#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"

namespace tt::tokenize {

/// Limit of a tokenizer.json; has a test.
inline constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20U;
/// Limit of a token's id; has a test.
inline constexpr std::int64_t kMaxTokenId = (std::int64_t{1} << 24) - 1;

/// Text to token ids and back, by a tokenizer.json of Hugging Face's library `tokenizers`, and with
/// its results. Known parts: the model BPE; the normalizers NFC, Prepend and Replace; the
/// pre-tokenizers ByteLevel, Digits, Metaspace and Split; the post-processors ByteLevel and
/// TemplateProcessing; the decoders ByteFallback, ByteLevel, Fuse, Metaspace, Replace and Strip;
/// and Sequence of each. The file's `truncation` and `padding` are not used: whoever packs
/// sequences decides their length. A copy shares the vocabulary. Thread: any, also several at once.
class Tokenizer {
 public:
  /// `file` names the file in errors. Error: not JSON, an unknown part, by its path in the file, or
  /// a number or name that contradicts the vocabulary.
  static base::Result<Tokenizer> read(std::string_view json, std::string file);

  /// One more than the largest id.
  std::int64_t vocab_size() const;

  /// The ids of a text in UTF-8. `add_special_tokens`: with the tokens that the file's template
  /// adds, such as <s>. Names of added tokens in the text become these tokens. Error: the text is
  /// not UTF-8.
  base::Result<std::vector<std::int64_t>> encode(std::string_view text,
                                                 bool add_special_tokens = false) const;

  /// The text of the ids. `skip_special_tokens`: without tokens such as <s>. Ids without a token
  /// give no text. Bytes that are not UTF-8 become U+FFFD.
  std::string decode(std::span<const std::int64_t> ids, bool skip_special_tokens = false) const;

  /// The token as it stands in the file, for example "Ġthe"; empty if no token has the id.
  std::string_view token(std::int64_t id) const;

 private:
  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts);
  std::shared_ptr<const Parts> parts_;
};

}  // namespace tt::tokenize
