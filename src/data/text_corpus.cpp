#include "tensor_tracer/data/text_corpus.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>
#include <utility>

#include "tensor_tracer/base/check.h"
#include "tensor_tracer/base/private_file.h"

namespace tt::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMapFrom = 16 << 20;
constexpr std::size_t kProbeBytes = 4096;

// Bytes of one file: mapped, or owned.
class FileBytes {
 public:
  explicit FileBytes(std::string owned) : owned_(std::move(owned)) {}
  FileBytes(void* mapped, std::size_t size) : mapped_(mapped), size_(size) {}
  FileBytes(FileBytes&& other) noexcept
      : owned_(std::move(other.owned_)),
        mapped_(std::exchange(other.mapped_, nullptr)),
        size_(other.size_) {}
  FileBytes& operator=(FileBytes&&) = delete;
  ~FileBytes() {
    if (mapped_ != nullptr) ::munmap(mapped_, size_);
  }
  const char* data() const {
    return mapped_ != nullptr ? static_cast<const char*>(mapped_) : owned_.data();
  }
  std::size_t size() const { return mapped_ != nullptr ? size_ : owned_.size(); }

 private:
  std::string owned_;
  void* mapped_ = nullptr;
  std::size_t size_ = 0;
};

base::Error cannot(const fs::path& path, const std::string& what) {
  std::ostringstream message;
  message << path << " " << what;
  return {"invalid_argument", message.str(), "--data-path",
          "give text files or folders that exist and can be read"};
}

std::optional<FileBytes> read_whole(const fs::path& path) {
  auto bytes = base::read_small_file(path, 2 * kMapFrom);
  if (!bytes) return std::nullopt;
  return FileBytes(std::move(bytes).value());
}

std::optional<FileBytes> map_whole(const fs::path& path, std::size_t size) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  ::close(fd);
  if (mapped == MAP_FAILED) return std::nullopt;
  return FileBytes(mapped, size);
}

std::optional<FileBytes> load(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) return std::nullopt;
  // Those of /proc say that they have no bytes, and some of them never end.
  if (size == 0) return FileBytes(std::string());
  return size >= kMapFrom ? map_whole(path, size) : read_whole(path);
}

bool looks_binary(const FileBytes& file) {
  return std::memchr(file.data(), 0, std::min(file.size(), kProbeBytes)) != nullptr;
}

base::Result<std::vector<fs::path>> walk(const fs::path& root,
                                         const std::vector<std::string>& exclude) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator at(root, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    std::error_code vanished;
    const fs::file_type type = at->symlink_status(vanished).type();
    if (type == fs::file_type::directory) {
      const std::string name = at->path().filename().string();
      if (std::ranges::find(exclude, name) != exclude.end()) at.disable_recursion_pending();
    } else if (type == fs::file_type::regular) {
      files.push_back(at->path());
    }
  }
  if (error) return cannot(root, "cannot be walked: " + error.message());
  std::ranges::sort(files);
  return files;
}

}  // namespace

struct TextCorpus::Parts {
  std::vector<FileBytes> files;
  std::vector<std::int64_t> begin;  // begin[i]: offset of file i; one more for the end
};

TextCorpus::TextCorpus(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
TextCorpus::TextCorpus(TextCorpus&&) noexcept = default;
TextCorpus& TextCorpus::operator=(TextCorpus&&) noexcept = default;
TextCorpus::~TextCorpus() = default;

base::Result<TextCorpus> TextCorpus::open(const std::vector<std::string>& paths,
                                          const std::vector<std::string>& exclude) {
  auto parts = std::make_unique<Parts>();
  parts->begin.push_back(0);
  if (paths.empty()) {
    return base::Error{"invalid_argument", "no training text was given", "--data-path",
                       "name text files or folders"};
  }
  for (const std::string& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (error || !fs::exists(status)) return cannot(path, "does not exist");
    const bool is_folder = fs::is_directory(status);
    auto files = is_folder ? walk(path, exclude) : std::vector<fs::path>{path};
    if (!files) return files.error();
    for (const fs::path& file : files.value()) {
      auto bytes = load(file);
      if (!bytes) return cannot(file, "cannot be read");
      if (bytes->size() == 0 || (is_folder && looks_binary(*bytes))) continue;
      parts->begin.push_back(parts->begin.back() + static_cast<std::int64_t>(bytes->size()));
      parts->files.push_back(std::move(*bytes));
    }
  }
  if (parts->files.empty()) return cannot(paths.front(), "holds no text");
  return TextCorpus(std::move(parts));
}

std::int64_t TextCorpus::size() const { return parts_->begin.back(); }
std::int64_t TextCorpus::num_files() const {
  return static_cast<std::int64_t>(parts_->files.size());
}

void TextCorpus::read(std::int64_t begin, std::span<std::uint8_t> out) const {
  TT_CHECK(begin >= 0 && begin + static_cast<std::int64_t>(out.size()) <= size(),
           "bytes " + std::to_string(begin) + " + " + std::to_string(out.size()));
  auto file = static_cast<std::size_t>(std::ranges::upper_bound(parts_->begin, begin) -
                                       parts_->begin.begin() - 1);
  std::size_t done = 0;
  for (; done < out.size(); ++file) {
    const auto offset =
        static_cast<std::size_t>(begin + static_cast<std::int64_t>(done) - parts_->begin[file]);
    const std::size_t count = std::min(parts_->files[file].size() - offset, out.size() - done);
    std::memcpy(out.data() + done, parts_->files[file].data() + offset, count);
    done += count;
  }
}

double TextCorpus::unigram_entropy() const {
  std::array<std::int64_t, 256> counts{};
  for (const FileBytes& file : parts_->files) {
    for (std::size_t i = 0; i < file.size(); ++i) {
      ++counts[static_cast<unsigned char>(file.data()[i])];
    }
  }
  double entropy = 0;
  for (const std::int64_t count : counts) {
    if (count == 0) continue;
    const double p = static_cast<double>(count) / static_cast<double>(size());
    entropy -= p * std::log(p);
  }
  return entropy;
}

}  // namespace tt::data
