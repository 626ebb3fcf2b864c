#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/data/text_corpus.h"
#include "tensor_tracer/tokenize/tokenizer.h"

namespace tt::data {

/// The training text as token ids. Immutable. Thread: any.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::int64_t size() const = 0;
  /// Ids [begin, begin + count), int64. REQUIRES: they lie inside the text.
  virtual at::Tensor read(std::int64_t begin, std::int64_t count) const = 0;
  /// True: the loss of some tokens does not count.
  virtual bool has_mask() const { return false; }
  /// Whether the loss of predicting the tokens from `begin` on counts. REQUIRES: they lie inside
  /// the text.
  virtual void read_counted(std::int64_t begin, std::span<bool> counted) const {
    static_cast<void>(begin);
    std::ranges::fill(counted, true);
  }
  /// Entropy of single tokens in nats: the loss of a model that knows only the frequencies.
  virtual double unigram_entropy() const = 0;
};

/// Each byte is a token.
class ByteTokens : public TokenSource {
 public:
  /// `corpus` outlives the object.
  explicit ByteTokens(const TextCorpus& corpus) : corpus_(corpus) {}
  std::int64_t size() const override { return corpus_.size(); }
  at::Tensor read(std::int64_t begin, std::int64_t count) const override;
  double unigram_entropy() const override { return corpus_.unigram_entropy(); }

 private:
  const TextCorpus& corpus_;
};

/// Ids in memory.
class IdTokens : public TokenSource {
 public:
  /// `ids`: int32 [tokens].
  explicit IdTokens(at::Tensor ids) : ids_(std::move(ids)) {}
  std::int64_t size() const override { return ids_.size(0); }
  at::Tensor read(std::int64_t begin, std::int64_t count) const override;
  double unigram_entropy() const override;
  const at::Tensor& ids() const { return ids_; }

 private:
  at::Tensor ids_;
};

/// The ids of all files, int32, each followed by `end`. Bytes that are not UTF-8 become U+FFFD.
/// Names of special tokens in a text become these tokens, as in transformers. Error: a text is
/// beyond a limit of the tokenizer; the message names the number of the file.
base::Result<at::Tensor> tokenize(const TextCorpus& corpus, const tokenize::Tokenizer& tokenizer,
                                  std::optional<std::int64_t> end);

}  // namespace tt::data
