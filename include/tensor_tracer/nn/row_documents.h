#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tt::nn {

/// The documents in the rows of a forward pass. A token attends to the tokens of its document up to
/// itself, and positions restart in each document. Copies share the tensors. Thread: any.
class RowDocuments {
 public:
  /// Each row is one document.
  RowDocuments() = default;
  /// `starts`: int64 [batch, sequence], the index in the row of the first token of each token's
  /// document; undefined: each row is one document.
  explicit RowDocuments(const at::Tensor& starts);

  /// False: each row is one document, and the other members are undefined.
  bool are_given() const { return starts_BT_.defined(); }
  const at::Tensor& starts() const { return starts_BT_; }
  /// int64 [batch, sequence].
  const at::Tensor& positions() const { return positions_BT_; }
  /// bool [batch, 1, queries, keys]: the query attends to the key.
  const at::Tensor& visible() const { return visible_B1TT_; }
  /// The first rows.
  RowDocuments first(std::int64_t rows) const;

 private:
  at::Tensor starts_BT_, positions_BT_, visible_B1TT_;
};

}  // namespace tt::nn
