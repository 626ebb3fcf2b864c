#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/shared_bytes.h"

namespace tt::data {

/// The bytes of many text files, concatenated in the order of their sorted paths. Large files are
/// mapped; small files are read into memory. Immutable. Thread: any.
class TextCorpus {
 public:
  /// `paths` are files, or folders that are searched recursively. Symbolic links are not followed.
  /// Folders whose name is in `exclude` are skipped. In folders, a file with a zero byte in its
  /// first 4 KiB counts as binary and is skipped. Error: a path that does not exist or cannot be
  /// read, or a corpus without bytes.
  static base::Result<TextCorpus> open(const std::vector<std::string>& paths,
                                       const std::vector<std::string>& exclude);
  std::int64_t size() const { return begin_.back(); }
  std::int64_t num_files() const { return static_cast<std::int64_t>(files_.size()); }
  /// The bytes of file `number`, from 0.
  std::string_view file(std::int64_t number) const {
    return *files_[static_cast<std::size_t>(number)];
  }
  /// Copies bytes [begin, begin + out.size()). REQUIRES: these bytes lie inside the corpus.
  void read(std::int64_t begin, std::span<std::uint8_t> out) const;
  /// Names the corpus: its size, its number of files, and a hash of 1,024 samples of 64 bytes.
  std::string description() const;
  /// Entropy of single bytes in nats: the loss of a model that knows only the byte frequencies.
  double unigram_entropy() const;

 private:
  TextCorpus() = default;
  std::vector<base::SharedBytes> files_;
  std::vector<std::int64_t> begin_ = {0};  // offset of each file, and the end of the corpus
};

}  // namespace tt::data
