#include <ATen/ATen.h>

#include <algorithm>

#include "tensor_tracer/data/documents.h"

namespace tt::data {

JoinedDocuments::JoinedDocuments(std::shared_ptr<const Documents> documents)
    : documents_(std::move(documents)) {
  begin_.reserve(static_cast<std::size_t>(documents_->size()) + 1);
  for (std::int64_t document = 0; document < documents_->size(); ++document)
    begin_.push_back(begin_.back() + documents_->length(document));
}

template <typename Visit>
void JoinedDocuments::for_each_part(std::int64_t begin, std::int64_t count,
                                    const Visit& visit) const {
  std::int64_t document = std::ranges::upper_bound(begin_, begin) - begin_.begin() - 1;
  for (std::int64_t done = 0; done < count; ++document) {
    const std::int64_t first = begin + done - begin_[static_cast<std::size_t>(document)];
    const std::int64_t part = std::min(documents_->length(document) - first, count - done);
    if (part > 0) visit(document, first, static_cast<std::size_t>(done), part);
    done += part;
  }
}

at::Tensor JoinedDocuments::read(std::int64_t begin, std::int64_t count) const {
  const at::Tensor ids = at::empty({count}, at::device(at::kCPU).dtype(at::kLong));
  const std::span<std::int64_t> all(ids.mutable_data_ptr<std::int64_t>(),
                                    static_cast<std::size_t>(count));
  for_each_part(begin, count, [&](auto document, auto first, std::size_t at, auto part) {
    documents_->read(document, first, all.subspan(at, static_cast<std::size_t>(part)));
  });
  return ids;
}

void JoinedDocuments::read_counted(std::int64_t begin, std::span<bool> counted) const {
  for_each_part(
      begin, std::ssize(counted),
      [&](auto document, auto first, std::size_t at, auto part) {
        documents_->read_counted(document, first,
                                 counted.subspan(at, static_cast<std::size_t>(part)));
      });
}

double JoinedDocuments::unigram_entropy() const { return data::unigram_entropy(*documents_); }

}  // namespace tt::data
