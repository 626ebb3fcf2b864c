#include "tensor_tracer/data/text_corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "tensor_tracer/base/byte_order_mark.h"
#include "tensor_tracer/base/check.h"
#include "tensor_tracer/base/hash.h"
#include "tensor_tracer/base/mapped_file.h"
#include "tensor_tracer/base/private_file.h"

namespace tt::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMapFrom = 16 << 20;
constexpr std::size_t kProbeBytes = 4096;
constexpr std::int64_t kSamples = 1024;
constexpr std::int64_t kSampleBytes = 64;

base::Error cannot(const fs::path& path, const std::string& what) {
  std::ostringstream message;
  message << path << " " << what;
  return {"invalid_argument", message.str(), "--data-path",
          "give text files or folders that exist and can be read"};
}

std::optional<base::SharedBytes> load(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) return std::nullopt;
  // Files in /proc report size 0, and some of them never end.
  if (size == 0) return base::SharedBytes();
  if (size >= kMapFrom) {
    auto mapped = base::map_file(path);
    return mapped ? std::optional(std::move(mapped).value()) : std::nullopt;
  }
  auto bytes = base::read_small_file(path, 2 * kMapFrom);
  if (!bytes) return std::nullopt;
  return base::SharedBytes(std::make_shared<const std::string>(std::move(bytes).value()));
}

bool looks_binary(std::string_view file) {
  return file.substr(0, kProbeBytes).find('\0') != std::string_view::npos;
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

base::Result<TextCorpus> TextCorpus::open(const std::vector<std::string>& paths,
                                          const std::vector<std::string>& exclude) {
  TextCorpus corpus;
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
      const std::string_view view = base::without_byte_order_mark(**bytes);
      if (view.empty() || (is_folder && looks_binary(view))) continue;
      corpus.begin_.push_back(corpus.size() + std::ssize(view));
      corpus.files_.push_back(bytes->part(view));
    }
  }
  if (corpus.files_.empty()) return cannot(paths.front(), "holds no text");
  return corpus;
}

void TextCorpus::read(std::int64_t begin, std::span<std::uint8_t> out) const {
  TT_CHECK(begin >= 0 && begin + static_cast<std::int64_t>(out.size()) <= size(),
           "bytes " + std::to_string(begin) + " + " + std::to_string(out.size()));
  auto file =
      static_cast<std::size_t>(std::ranges::upper_bound(begin_, begin) - begin_.begin() - 1);
  std::size_t done = 0;
  for (; done < out.size(); ++file) {
    const auto offset =
        static_cast<std::size_t>(begin + static_cast<std::int64_t>(done) - begin_[file]);
    const std::size_t count = std::min(files_[file]->size() - offset, out.size() - done);
    std::memcpy(out.data() + done, files_[file]->data() + offset, count);
    done += count;
  }
}

std::string TextCorpus::description() const {
  std::uint64_t hash = 0;
  const std::int64_t bytes = std::min(kSampleBytes, size());
  std::string sample(static_cast<std::size_t>(bytes), '\0');
  for (std::int64_t i = 0; i < kSamples; ++i) {
    read(i * ((size() - bytes) / kSamples),
         {reinterpret_cast<std::uint8_t*>(sample.data()), sample.size()});
    hash = base::mix(hash, base::hash_of(sample));
  }
  return fmt::format("{} bytes in {} files (hash of samples {:016x})", size(), num_files(), hash);
}

double TextCorpus::unigram_entropy() const {
  std::array<std::int64_t, 256> counts{};
  for (const base::SharedBytes& file : files_)
    for (const char byte : *file) ++counts[static_cast<unsigned char>(byte)];
  double entropy = 0;
  for (const std::int64_t count : counts) {
    if (count == 0) continue;
    const double p = static_cast<double>(count) / static_cast<double>(size());
    entropy -= p * std::log(p);
  }
  return entropy;
}

}  // namespace tt::data
