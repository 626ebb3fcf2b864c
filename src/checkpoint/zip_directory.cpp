#include <cstring>

#include "src/checkpoint/tensor_bytes.h"

namespace tt::checkpoint {
namespace {

// .ZIP File Format Specification, 4.3: end of the central directory, its entries, local headers.
constexpr std::string_view kEndMark{"PK\x05\x06", 4};
constexpr std::string_view kEntryMark{"PK\x01\x02", 4};
constexpr std::string_view kLocalMark{"PK\x03\x04", 4};
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEntryBytes = 46;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kMaxCommentBytes = 65535;

// A little-endian number. REQUIRES: the number lies inside the file.
template <typename Unsigned>
std::size_t number_at(std::string_view file, std::size_t at) {
  Unsigned value = 0;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

// True if [begin, begin + size) lies inside the file. Written so that no unsigned subtraction
// underflows.
bool holds(std::string_view file, std::size_t begin, std::size_t size) {
  return begin <= file.size() && size <= file.size() - begin;
}

base::Error not_an_archive() {
  return bad_tensor("it is not an archive that torch.save wrote, or it is cut off");
}

base::Result<std::size_t> find_end(std::string_view file) {
  const std::size_t tail = std::min(file.size(), kEndBytes + kMaxCommentBytes);
  const std::size_t at = file.rfind(kEndMark);
  if (at == std::string_view::npos || at < file.size() - tail || !holds(file, at, kEndBytes))
    return not_an_archive();
  return at;
}

struct Entry {
  std::string_view name;
  std::size_t method = 0;  // 0: stored
  std::size_t stored = 0;  // bytes in the file
  std::size_t size = 0;    // bytes of the content
  std::size_t local = 0;   // position of its local header
};

base::Result<std::vector<Entry>> read_entries(std::string_view file) {
  const auto end = find_end(file);
  if (!end) return end.error();
  const auto count = number_at<std::uint16_t>(file, end.value() + 10);
  std::size_t at = number_at<std::uint32_t>(file, end.value() + 16);
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < count; ++i) {
    if (!holds(file, at, kEntryBytes) || file.substr(at, 4) != kEntryMark) return not_an_archive();
    const auto name = number_at<std::uint16_t>(file, at + 28);
    const auto rest =
        number_at<std::uint16_t>(file, at + 30) + number_at<std::uint16_t>(file, at + 32);
    if (!holds(file, at + kEntryBytes, name + rest)) return not_an_archive();
    entries.push_back({file.substr(at + kEntryBytes, name), number_at<std::uint16_t>(file, at + 10),
                       number_at<std::uint32_t>(file, at + 20),
                       number_at<std::uint32_t>(file, at + 24),
                       number_at<std::uint32_t>(file, at + 42)});
    at += kEntryBytes + name + rest;
  }
  return entries;
}

base::Result<ZipRecord> content_of(std::string_view file, const Entry& entry) {
  if (entry.method != 0 || entry.stored != entry.size) {
    return base::Error{"invalid_argument", "its records are compressed", "",
                       "save it again with torch.save, which does not compress"};
  }
  if (!holds(file, entry.local, kLocalBytes) || file.substr(entry.local, 4) != kLocalMark)
    return not_an_archive();
  const std::size_t begin = entry.local + kLocalBytes +
                            number_at<std::uint16_t>(file, entry.local + 26) +
                            number_at<std::uint16_t>(file, entry.local + 28);
  if (!holds(file, begin, entry.size)) return not_an_archive();
  return ZipRecord{begin, entry.size};
}

}  // namespace

base::Result<ZipRecord> find_zip_record(std::string_view file, std::string_view name) {
  const auto entries = read_entries(file);
  if (!entries) return entries.error();
  std::size_t all = 0;
  for (const Entry& entry : entries.value()) all += entry.size;
  if (all > kMaxTensorFileBytes)
    return bad_tensor("it holds " + std::to_string(all) + " bytes, more than 256 MiB");
  for (const Entry& entry : entries.value()) {
    const std::size_t folder = entry.name.find('/');
    if (folder == std::string_view::npos || entry.name.substr(folder + 1) != name) continue;
    return content_of(file, entry);
  }
  return not_an_archive();
}

}  // namespace tt::checkpoint
