#include "src/hub/dialect/shared_updates.h"

#include <memory>
#include <string>

namespace tt::hub::dialect {

std::optional<base::SharedBytes> SharedUpdates::update_of(const ShownRecords& shown,
                                                          Dialect dialect,
                                                          const base::SharedBytes& record) {
  const Key key(record->data(), dialect);
  if (const auto known = updates_.find(key); known != updates_.end()) {
    return known->second.text;
  }
  Update update{.record = record, .text = {}};
  if (auto text = shown.update_of(dialect, *record)) {
    update.text = std::make_shared<const std::string>(std::move(*text));
  }
  bytes_ += update.bytes();
  const auto made = updates_.emplace(key, std::move(update)).first;
  order_.push_back(key);
  while (bytes_ > kMaxBytes && order_.size() > 1) {
    const auto oldest = updates_.find(order_.front());
    bytes_ -= oldest->second.bytes();
    updates_.erase(oldest);
    order_.pop_front();
  }
  return made->second.text;
}

void SharedUpdates::clear() {
  updates_.clear();
  order_.clear();
  bytes_ = 0;
}

}  // namespace tt::hub::dialect
