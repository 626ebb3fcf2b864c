#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor_tracer/tokenize/tokenizer.h"

namespace tt::tokenize {

/// Decodes tokens that arrive one by one. The texts together are Tokenizer::decode() of all ids,
/// where the bytes are UTF-8. Thread: one at a time.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special_tokens = false);

  /// The text that is complete with this id; empty while a character lacks bytes.
  std::string add(std::int64_t id);

  /// The rest: U+FFFD for bytes that no character completed. Afterwards a new text may begin.
  std::string finish();

 private:
  std::string take(const std::string& decoded);

  Tokenizer tokenizer_;
  bool skip_special_tokens_;
  std::vector<std::int64_t> ids_;  // those of the last texts, as the decoder looks at neighbours
  std::size_t old_ids_ = 0;        // ids_[0, old_ids_) are told
  std::string told_;               // their text
};

}  // namespace tt::tokenize
