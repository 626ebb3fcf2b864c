#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <string>
#include <unordered_map>

#include "tensor_tracer/base/shared_bytes.h"

namespace tt::hub {

using base::SharedBytes;

/// The texts that wait for one client, in two lines. Texts are never dropped. Data texts, which are
/// as frequent as records, are: above a limit only the latest text of a key is kept, and it takes
/// the place of the older one, so that every key gets its turn on a slow connection.
/// Thread: the hub's I/O thread only.
class TextQueue {
 public:
  /// Up to `fresh_bytes` of waiting data texts, none is replaced.
  explicit TextQueue(std::size_t fresh_bytes) : fresh_bytes_(fresh_bytes) {}

  void push(SharedBytes text);
  void push_data(const std::string& key, SharedBytes text);

  bool has_text() const { return !texts_.empty(); }
  bool has_data() const { return !data_.empty(); }
  /// REQUIRES: has_text().
  SharedBytes pop();
  /// REQUIRES: has_data().
  SharedBytes pop_data();
  /// Drops the oldest data text, but never the last: otherwise no client would ever get it.
  /// REQUIRES: can_drop().
  void drop_oldest();
  bool can_drop() const { return data_.size() > 1; }

  std::size_t text_bytes() const { return text_bytes_; }
  std::size_t data_bytes() const { return data_bytes_; }
  /// The number of data texts that were dropped or replaced since the last call.
  std::uint64_t take_dropped();
  bool has_dropped() const { return dropped_ > 0; }

 private:
  struct DataText {
    std::string key;
    SharedBytes text;
  };
  using DataTexts = std::list<DataText>;

  std::size_t fresh_bytes_;
  std::deque<SharedBytes> texts_;
  std::size_t text_bytes_ = 0;
  DataTexts data_;
  std::unordered_map<std::string, DataTexts::iterator> newest_;  // by key
  std::size_t data_bytes_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace tt::hub
