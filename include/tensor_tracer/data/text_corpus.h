#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/shared_bytes.h"

namespace tt::data {

/// The bytes of many text files, end to end in the order of their sorted paths. Each byte is one
/// token. Big files are mapped, small ones held in memory. Immutable. Thread: any.
class TextCorpus {
 public:
  /// `paths` are files, or folders that are walked; symbolic links are not followed, and folders
  /// whose name is in `exclude` are left out. In folders, files that hold a zero byte in their
  /// first 4 KiB are taken for binary and left out.
  /// Error: a path that is missing or cannot be read, or no byte at all.
  static base::Result<TextCorpus> open(const std::vector<std::string>& paths,
                                       const std::vector<std::string>& exclude);
  std::int64_t size() const { return begin_.back(); }
  std::int64_t num_files() const { return static_cast<std::int64_t>(files_.size()); }
  /// Copies bytes [begin, begin + out.size()). REQUIRES: inside the corpus.
  void read(std::int64_t begin, std::span<std::uint8_t> out) const;
  /// Entropy of single bytes in nats: what a model that knows only their frequencies reaches.
  double unigram_entropy() const;

 private:
  TextCorpus() = default;
  std::vector<base::SharedBytes> files_;
  std::vector<std::int64_t> begin_ = {0};  // offset of each file, and one more for the end
};

}  // namespace tt::data
