#include "src/hub/fanout/text_queue.h"

#include <utility>

namespace tt::hub {

void TextQueue::push(SharedBytes text) {
  text_bytes_ += text->size();
  texts_.push_back(std::move(text));
}

void TextQueue::push_data(const std::string& key, SharedBytes text) {
  const auto newest = newest_.find(key);
  const bool replaces = data_bytes_ > fresh_bytes_ && newest != newest_.end();
  data_bytes_ += text->size();
  if (replaces) {
    SharedBytes& waiting = newest->second->text;
    data_bytes_ -= waiting->size();
    waiting = std::move(text);
    ++dropped_;
  } else {
    newest_[key] = data_.insert(data_.end(), {.key = key, .text = std::move(text)});
  }
}

SharedBytes TextQueue::pop() {
  SharedBytes text = std::move(texts_.front());
  texts_.pop_front();
  text_bytes_ -= text->size();
  return text;
}

SharedBytes TextQueue::pop_data() {
  const auto oldest = data_.begin();
  const auto newest = newest_.find(oldest->key);
  if (newest->second == oldest) newest_.erase(newest);
  SharedBytes text = std::move(oldest->text);
  data_bytes_ -= text->size();
  data_.erase(oldest);
  return text;
}

void TextQueue::drop_oldest() {
  pop_data();
  ++dropped_;
}

std::uint64_t TextQueue::take_dropped() { return std::exchange(dropped_, 0); }

}  // namespace tt::hub
