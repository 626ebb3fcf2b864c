#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "src/hub/dialect/shown_records.h"
#include "tensor_tracer/base/shared_bytes.h"

namespace tt::hub::dialect {

/// The newest updates, so that each is made once for all viewers of its dialect that keep up.
/// Thread: one at a time.
class SharedUpdates {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{8} << 20U;

  /// As ShownRecords::update_of. `record` is told from others by where it lies.
  std::optional<base::SharedBytes> update_of(const ShownRecords& shown, Dialect dialect,
                                             const base::SharedBytes& record);
  /// `shown` has another plan now.
  void clear();

 private:
  using Key = std::pair<const char*, Dialect>;
  struct Update {
    base::SharedBytes record;  // as long as it is kept no other lies there
    std::optional<base::SharedBytes> text;
    std::size_t bytes() const { return record->size() + (text ? (*text)->size() : 0); }
  };
  std::map<Key, Update> updates_;
  std::deque<Key> order_;  // as they were made
  std::size_t bytes_ = 0;
};

}  // namespace tt::hub::dialect
