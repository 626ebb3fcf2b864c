#include "src/data/prompted_documents.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

namespace tt::data {

PromptedDocuments::PromptedDocuments(std::shared_ptr<const TextCorpus> files,
                                     IndexedDocuments documents)
    : PromptedTexts(std::move(files)), documents_(std::move(documents)) {}

base::Result<std::optional<PromptedText>> PromptedDocuments::next() {
  if (next_ == documents_.size()) return std::optional<PromptedText>();
  const std::int64_t length = documents_.length(next_);
  PromptedText text;
  text.ids.resize(static_cast<std::size_t>(length));
  documents_.read(next_, 0, text.ids);
  const auto counted = std::make_unique<bool[]>(static_cast<std::size_t>(length));
  documents_.read_counted(next_, 0, {counted.get(), static_cast<std::size_t>(length)});
  for (std::int64_t at = 0; at < length; ++at) {
    if (!counted[static_cast<std::size_t>(at)]) continue;
    if (text.response.empty() || text.response.back().second != at)
      text.response.emplace_back(at, at);
    text.response.back().second = at + 1;
  }
  ++next_;
  return std::optional(std::move(text));
}

}  // namespace tt::data
