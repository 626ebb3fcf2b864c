#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/data/documents.h"

namespace tt::data {

/// The files of Megatron-LM's indexed dataset, and the roles of its tokens.
struct IndexedFiles {
  std::string name;             // the path without .bin and .idx, for errors
  std::string_view bin;         // the ids
  std::string_view index;       // the file .idx
  std::string_view roles = {};  // one byte for each token of `bin`; empty: all tokens count
  std::uint8_t counted_role = 0;
};

/// Documents of Megatron-LM's indexed dataset; each of its sequences is a document. The ids stay in
/// the files, which are usually mapped.
class IndexedDocuments : public Documents {
 public:
  /// The files outlive the object. Error: the files contradict each other, or hold numbers of
  /// another kind than uint8, uint16, int32 and int64.
  static base::Result<IndexedDocuments> open(const IndexedFiles& files);

  /// Error: an id is below 0, or not below `vocab_size`; it names the document and the position.
  /// Reads all ids.
  base::Status check_ids(std::int64_t vocab_size) const;

  std::int64_t size() const override { return size_; }
  std::int64_t length(std::int64_t document) const override;
  void read(std::int64_t document, std::int64_t begin, std::span<std::int64_t> ids) const override;
  bool has_mask() const override { return !files_.roles.empty(); }
  void read_counted(std::int64_t document, std::int64_t begin,
                    std::span<bool> counted) const override;
  std::string name(std::int64_t document) const override;

 private:
  explicit IndexedDocuments(const IndexedFiles& files) : files_(files) {}
  base::Status read_header();
  base::Status check_documents() const;
  base::Status check_place(std::int64_t document) const;
  std::int64_t pointer(std::int64_t document) const;
  base::Error wrong(const std::string& message) const;

  IndexedFiles files_;
  int kind_ = 0;  // Megatron-LM's number of the dtype
  std::int64_t id_bytes_ = 1;
  std::int64_t size_ = 0;
};

}  // namespace tt::data
