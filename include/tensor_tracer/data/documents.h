#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/data/token_source.h"

namespace tt::data {

/// Separate texts as token ids. Immutable. Thread: any.
class Documents {
 public:
  virtual ~Documents() = default;
  /// Number of documents.
  virtual std::int64_t size() const = 0;
  /// Number of tokens of a document.
  virtual std::int64_t length(std::int64_t document) const = 0;
  /// Copies ids of a document from token `begin` on. REQUIRES: they lie inside the document.
  virtual void read(std::int64_t document, std::int64_t begin,
                    std::span<std::int64_t> ids) const = 0;
  /// True: the loss of some tokens does not count.
  virtual bool has_mask() const = 0;
  /// Whether the loss of predicting these tokens counts. REQUIRES: as read().
  virtual void read_counted(std::int64_t document, std::int64_t begin,
                            std::span<bool> counted) const = 0;
  /// The document for a person, with the name of its file.
  virtual std::string name(std::int64_t document) const = 0;
};

/// Documents in memory.
class MemoryDocuments : public Documents {
 public:
  struct Tokens {
    at::Tensor ids;                         // int32 [tokens], the documents one after another
    at::Tensor counted;                     // bool [tokens]; undefined: all count
    std::vector<std::int64_t> begin = {0};  // first token of each document, and the end
  };
  /// `names`: of the documents; empty: not known.
  MemoryDocuments(Tokens tokens, std::vector<std::string> files,
                  std::vector<std::pair<std::int32_t, std::int32_t>> origins);

  std::int64_t size() const override { return static_cast<std::int64_t>(tokens_.begin.size()) - 1; }
  std::int64_t length(std::int64_t document) const override;
  void read(std::int64_t document, std::int64_t begin, std::span<std::int64_t> ids) const override;
  bool has_mask() const override { return tokens_.counted.defined(); }
  void read_counted(std::int64_t document, std::int64_t begin,
                    std::span<bool> counted) const override;
  std::string name(std::int64_t document) const override;
  const Tokens& tokens() const { return tokens_; }

 private:
  Tokens tokens_;
  std::vector<std::string> files_;
  std::vector<std::pair<std::int32_t, std::int32_t>> origins_;  // index of the file, and line
};

/// Documents one after another as one text.
class JoinedDocuments : public TokenSource {
 public:
  explicit JoinedDocuments(std::shared_ptr<const Documents> documents);
  std::int64_t size() const override { return begin_.back(); }
  at::Tensor read(std::int64_t begin, std::int64_t count) const override;
  bool has_mask() const override { return documents_->has_mask(); }
  void read_counted(std::int64_t begin, std::span<bool> counted) const override;
  double unigram_entropy() const override;

 private:
  /// Calls `visit(document, first token in it, offset in the range, count)` for each part of the
  /// range.
  template <typename Visit>
  void for_each_part(std::int64_t begin, std::int64_t count, const Visit& visit) const;

  std::shared_ptr<const Documents> documents_;
  std::vector<std::int64_t> begin_ = {0};
};

/// Number of tokens of all documents.
std::int64_t num_tokens(const Documents& documents);

/// Entropy of single tokens in nats. Reads all documents.
double unigram_entropy(const Documents& documents);

}  // namespace tt::data
