#include "tensor_tracer/data/indexed_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace tt::data {
namespace {

// The header: 9 bytes of kMagic, then the version (uint64), the kind of the ids (uint8), the number
// of sequences (uint64) and of the document marks (uint64), all little-endian. After it: the
// lengths (int32), the offsets in .bin (int64) and the document marks (int64).
constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr std::size_t kHeaderBytes = 34;
constexpr std::size_t kBytesPerSequence = 12;

template <typename Number>
Number number_at(std::string_view bytes, std::size_t offset) {
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

// 0: not a kind of ids.
std::int64_t bytes_of_kind(int kind) {
  switch (kind) {
    case 1:
      return 1;  // uint8
    case 4:
      return 4;  // int32
    case 5:
      return 8;  // int64
    case 8:
      return 2;  // uint16
    default:
      return 0;
  }
}

template <typename Number>
void copy_ids(std::string_view bytes, std::span<std::int64_t> ids) {
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int64_t>(number_at<Number>(bytes, i * sizeof(Number)));
}

}  // namespace

base::Error IndexedDocuments::wrong(const std::string& message) const {
  return base::invalid_argument("--data-path", "\"" + files_.name + message,
                                "make the files again with Megatron-LM's preprocess_data.py, or "
                                "with python -m tensor_tracer prepare");
}

base::Status IndexedDocuments::read_header() {
  const std::string_view index = files_.index;
  if (index.size() < kHeaderBytes || !index.starts_with(kMagic))
    return wrong(".idx\" is not an index of Megatron-LM (MMIDIDX)");
  if (const auto version = number_at<std::uint64_t>(index, 9); version != 1)
    return wrong(fmt::format(".idx\" has version {}, and only 1 is known", version));
  kind_ = static_cast<unsigned char>(index[17]);
  id_bytes_ = bytes_of_kind(kind_);
  if (id_bytes_ == 0) {
    return wrong(
        fmt::format(".idx\" says that the ids have the dtype {}; known are 1 (uint8), 8 (uint16), "
                    "4 (int32) and "
                    "5 (int64)",
                    kind_));
  }
  const auto sequences = number_at<std::uint64_t>(index, 18);
  const auto marks = number_at<std::uint64_t>(index, 26);
  const std::uint64_t room = index.size() - kHeaderBytes;
  if (sequences > room / kBytesPerSequence || marks > room / sizeof(std::int64_t) ||
      sequences * kBytesPerSequence + marks * sizeof(std::int64_t) > room) {
    return wrong(fmt::format(".idx\" has {} bytes, too few for {} sequences and {} document marks",
                             index.size(), sequences, marks));
  }
  if (sequences == 0) return wrong(".idx\" has no sequence");
  size_ = static_cast<std::int64_t>(sequences);
  return {};
}

base::Status IndexedDocuments::check_place(std::int64_t document) const {
  const std::int64_t tokens = length(document), offset = pointer(document);
  const auto bytes = static_cast<std::int64_t>(files_.bin.size());
  if (tokens < 0)
    return wrong(fmt::format(".idx\": document {} has the length {}", document + 1, tokens));
  if (offset < 0 || offset > bytes || tokens > (bytes - offset) / id_bytes_) {
    return wrong(fmt::format(
        ".idx\": document {} has {} tokens from byte {}, which is not inside the {} bytes of .bin",
        document + 1, tokens, offset, bytes));
  }
  if (offset % id_bytes_ == 0) return {};
  return wrong(fmt::format(".idx\": document {} begins at byte {}, in the middle of an id",
                           document + 1, offset));
}

base::Status IndexedDocuments::check_documents() const {
  for (std::int64_t document = 0; document < size_; ++document)
    if (auto status = check_place(document); !status) return status;
  const auto marks = number_at<std::uint64_t>(files_.index, 26);
  std::int64_t before = 0;
  for (std::uint64_t i = 0; i < marks; ++i) {
    const auto mark = number_at<std::int64_t>(
        files_.index, kHeaderBytes + static_cast<std::size_t>(size_) * kBytesPerSequence + i * 8);
    const bool is_end = i + 1 == marks;
    if (mark < before || (i == 0 && mark != 0) || (is_end && mark != size_))
      return wrong(fmt::format(".idx\": mark {} of the documents is {}; marks rise from 0 to {}",
                               i + 1, mark, size_));
    before = mark;
  }
  if (files_.roles.empty() ||
      files_.roles.size() * static_cast<std::size_t>(id_bytes_) == files_.bin.size())
    return {};
  return wrong(fmt::format(".roles.bin\" has {} roles, and .bin has {} tokens", files_.roles.size(),
                           files_.bin.size() / static_cast<std::size_t>(id_bytes_)));
}

base::Result<IndexedDocuments> IndexedDocuments::open(const IndexedFiles& files) {
  IndexedDocuments documents(files);
  if (auto status = documents.read_header(); !status) return status.error();
  if (auto status = documents.check_documents(); !status) return status.error();
  return documents;
}

base::Status IndexedDocuments::check_ids(std::int64_t vocab_size) const {
  std::vector<std::int64_t> ids;
  for (std::int64_t document = 0; document < size_; ++document) {
    ids.resize(static_cast<std::size_t>(length(document)));
    read(document, 0, ids);
    const auto bad =
        std::ranges::find_if(ids, [&](std::int64_t id) { return id < 0 || id >= vocab_size; });
    if (bad == ids.end()) continue;
    return base::invalid_argument(
        "--data-path",
        fmt::format("{} has the id {} at position {}, and the model has {} ids", name(document),
                    *bad, bad - ids.begin(), vocab_size),
        "give the tokenizer of the data, or a larger --vocab-size");
  }
  return {};
}

std::int64_t IndexedDocuments::length(std::int64_t document) const {
  return number_at<std::int32_t>(files_.index,
                                 kHeaderBytes + static_cast<std::size_t>(document) * 4);
}

// Offset of the first id in .bin, in bytes.
std::int64_t IndexedDocuments::pointer(std::int64_t document) const {
  return number_at<std::int64_t>(files_.index, kHeaderBytes + static_cast<std::size_t>(size_) * 4 +
                                                   static_cast<std::size_t>(document) * 8);
}

void IndexedDocuments::read(std::int64_t document, std::int64_t begin,
                            std::span<std::int64_t> ids) const {
  const auto offset = static_cast<std::size_t>(pointer(document) + begin * id_bytes_);
  const std::string_view bytes = files_.bin.substr(offset);
  if (kind_ == 1) copy_ids<std::uint8_t>(bytes, ids);
  if (kind_ == 4) copy_ids<std::int32_t>(bytes, ids);
  if (kind_ == 5) copy_ids<std::int64_t>(bytes, ids);
  if (kind_ == 8) copy_ids<std::uint16_t>(bytes, ids);
}

void IndexedDocuments::read_counted(std::int64_t document, std::int64_t begin,
                                    std::span<bool> counted) const {
  if (!has_mask()) {
    std::ranges::fill(counted, true);
    return;
  }
  const auto first = static_cast<std::size_t>(pointer(document) / id_bytes_ + begin);
  for (std::size_t i = 0; i < counted.size(); ++i)
    counted[i] = static_cast<std::uint8_t>(files_.roles[first + i]) == files_.counted_role;
}

std::string IndexedDocuments::name(std::int64_t document) const {
  return fmt::format("document {} of \"{}\"", document + 1, files_.name);
}

}  // namespace tt::data
