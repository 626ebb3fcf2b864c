#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/data/documents.h"
#include "tensor_tracer/data/samples.h"

namespace tt::data {

/// How documents become rows.
struct RowLayout {
  std::int64_t seq_length = 1;
  bool packs = true;  // several documents in a row; false: one
  bool cuts = false;  // a document that is too long loses its end; false: it is an error
};

/// Rows of whole documents. A document of n tokens takes n - 1 places of a row, because its last
/// token is only a label. The rest of a row is padding: token 0, no label, a separate document.
/// Packing keeps the last 64 rows open. A document goes into the first open row with enough space,
/// so the rows depend only on the lengths, their order and seq_length.
class DocumentSamples : public SampleSource {
 public:
  /// Documents without a label that counts are left out. Error: a document has more than
  /// seq_length + 1 tokens and the layout does not cut.
  static base::Result<DocumentSamples> make(std::shared_ptr<const Documents> documents,
                                            const RowLayout& layout);

  std::int64_t size() const override { return static_cast<std::int64_t>(begin_.size()) - 1; }
  /// The tokens in the files. Documents that were left out, and ends that were cut off, are
  /// counted.
  std::int64_t num_tokens() const override { return data::num_tokens(*documents_); }
  bool is_plain() const override { return false; }
  void read(std::int64_t sample, const Row& row) const override;
  std::int64_t num_counted(std::int64_t sample) const override;
  double unigram_entropy() const override { return data::unigram_entropy(*documents_); }

  std::int64_t num_documents() const { return static_cast<std::int64_t>(order_.size()); }
  std::int64_t num_cut() const { return num_cut_; }
  std::int64_t num_left_out() const { return num_left_out_; }

 private:
  explicit DocumentSamples(std::shared_ptr<const Documents> documents, const RowLayout& layout)
      : documents_(std::move(documents)), layout_(layout) {}
  std::int64_t labels_of(std::int64_t document) const;
  bool has_loss(std::int64_t document) const;
  base::Status check_length(std::int64_t document);
  base::Status place_all();
  /// Calls `visit(document, first place in the row, places)`.
  template <typename Visit>
  void for_each_document(std::int64_t sample, const Visit& visit) const;

  std::shared_ptr<const Documents> documents_;
  RowLayout layout_;
  std::vector<std::int64_t> order_;        // documents, row by row
  std::vector<std::int64_t> begin_ = {0};  // index into order_ of each row, and the end
  std::int64_t num_cut_ = 0;
  std::int64_t num_left_out_ = 0;
};

}  // namespace tt::data
