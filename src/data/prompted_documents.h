#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tensor_tracer/data/indexed_documents.h"
#include "tensor_tracer/data/prompted_texts.h"

namespace tt::data {

/// The documents of a folder that `prepare` wrote.
class PromptedDocuments : public PromptedTexts {
 public:
  /// `documents`: those of `files`.
  PromptedDocuments(std::shared_ptr<const TextCorpus> files, IndexedDocuments documents);
  base::Result<std::optional<PromptedText>> next() override;
  void rewind() override { next_ = 0; }
  std::string place() const override { return documents_.name(next_ - 1); }
  nlohmann::ordered_json object() const override { return {{"document", next_}}; }

 private:
  const IndexedDocuments documents_;
  std::int64_t next_ = 0;
};

}  // namespace tt::data
