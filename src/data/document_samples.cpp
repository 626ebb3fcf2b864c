#include "tensor_tracer/data/document_samples.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <string>

namespace tt::data {
namespace {

constexpr std::size_t kOpenRows = 64;

// Row after row, by the number of places that each document needs.
class Packer {
 public:
  Packer(std::int64_t places, bool packs) : places_(places), open_rows_(packs ? kOpenRows : 0) {}

  /// The row of the next document.
  std::int64_t row_for(std::int64_t needed) {
    for (Open& open : open_) {
      if (open.left < needed) continue;
      open.left -= needed;
      return open.row;
    }
    open_.push_back({rows_, places_ - needed});
    if (open_.size() > open_rows_) open_.pop_front();
    return rows_++;
  }
  std::int64_t rows() const { return rows_; }

 private:
  struct Open {
    std::int64_t row, left;
  };
  const std::int64_t places_;
  const std::size_t open_rows_;
  std::deque<Open> open_;
  std::int64_t rows_ = 0;
};

}  // namespace

// Number of labels of a document, which is the number of places that it takes.
std::int64_t DocumentSamples::labels_of(std::int64_t document) const {
  return std::min(documents_->length(document) - 1, layout_.seq_length);
}

bool DocumentSamples::has_loss(std::int64_t document) const {
  const std::int64_t labels = labels_of(document);
  if (labels < 1) return false;
  if (!documents_->has_mask()) return true;
  const auto size = static_cast<std::size_t>(labels);
  const auto counted = std::make_unique<bool[]>(size);
  documents_->read_counted(document, 1, {counted.get(), size});
  return std::find(counted.get(), counted.get() + size, true) != counted.get() + size;
}

base::Status DocumentSamples::check_length(std::int64_t document) {
  const std::int64_t length = documents_->length(document);
  if (length <= layout_.seq_length + 1) return {};
  ++num_cut_;
  if (layout_.cuts) return {};
  return base::invalid_argument(
      "--data-path",
      documents_->name(document) + " has " + std::to_string(length) +
          " tokens, and a sequence of --seq-length " + std::to_string(layout_.seq_length) +
          " takes " + std::to_string(layout_.seq_length + 1),
      "shorten it, give a larger --seq-length, or cut such documents with --overlong cut");
}

base::Status DocumentSamples::place_all() {
  Packer packer(layout_.seq_length, layout_.packs);
  std::vector<std::int64_t> row_of;
  for (std::int64_t document = 0; document < documents_->size(); ++document) {
    if (auto status = check_length(document); !status) return status;
    if (!has_loss(document)) {
      ++num_left_out_;
      continue;
    }
    order_.push_back(document);
    row_of.push_back(packer.row_for(labels_of(document)));
  }
  begin_.assign(static_cast<std::size_t>(packer.rows()) + 1, 0);
  for (const std::int64_t row : row_of) ++begin_[static_cast<std::size_t>(row) + 1];
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  std::vector<std::int64_t> next(begin_.begin(), begin_.end() - 1), by_row(order_.size());
  for (std::size_t i = 0; i < order_.size(); ++i)
    by_row[static_cast<std::size_t>(next[static_cast<std::size_t>(row_of[i])]++)] = order_[i];
  order_ = std::move(by_row);
  return {};
}

base::Result<DocumentSamples> DocumentSamples::make(std::shared_ptr<const Documents> documents,
                                                    const RowLayout& layout) {
  DocumentSamples samples(std::move(documents), layout);
  if (auto status = samples.place_all(); !status) return status.error();
  return samples;
}

template <typename Visit>
void DocumentSamples::for_each_document(std::int64_t sample, const Visit& visit) const {
  const auto row = static_cast<std::size_t>(sample);
  std::size_t at = 0;
  for (std::int64_t i = begin_[row]; i < begin_[row + 1]; ++i) {
    const std::int64_t document = order_[static_cast<std::size_t>(i)];
    const auto places = static_cast<std::size_t>(labels_of(document));
    visit(document, at, places);
    at += places;
  }
}

void DocumentSamples::read(std::int64_t sample, const Row& row) const {
  std::size_t end = 0;
  for_each_document(sample, [&](std::int64_t document, std::size_t at, std::size_t places) {
    documents_->read(document, 0, row.tokens.subspan(at, places));
    documents_->read(document, 1, row.labels.subspan(at, places));
    documents_->read_counted(document, 1, row.counted.subspan(at, places));
    std::ranges::fill(row.starts.subspan(at, places), static_cast<std::int64_t>(at));
    end = at + places;
  });
  std::ranges::fill(row.tokens.subspan(end), 0);
  std::ranges::fill(row.labels.subspan(end), -1);
  std::ranges::fill(row.counted.subspan(end), false);
  std::ranges::fill(row.starts.subspan(end), static_cast<std::int64_t>(end));
}

std::int64_t DocumentSamples::num_counted(std::int64_t sample) const {
  std::int64_t sum = 0;
  for_each_document(sample, [&](std::int64_t document, std::size_t, std::size_t places) {
    const auto counted = std::make_unique<bool[]>(places);
    documents_->read_counted(document, 1, {counted.get(), places});
    sum += std::count(counted.get(), counted.get() + places, true);
  });
  return sum;
}

}  // namespace tt::data
