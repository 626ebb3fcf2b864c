#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace tt::base {

/// Bytes that several queues hold, with the owner that keeps the bytes alive. Used like a pointer
/// to a string_view. Owner: shared by all copies.
class SharedBytes {
 public:
  SharedBytes() = default;
  SharedBytes(const std::shared_ptr<const std::string>& text)
      : owner_(text), view_(*text), pinned_(text->size()) {}
  /// `pinned`: the size of the memory that stays allocated as long as `owner` lives.
  SharedBytes(std::shared_ptr<const void> owner, std::string_view view, std::size_t pinned)
      : owner_(std::move(owner)), view_(view), pinned_(pinned) {}

  const std::string_view& operator*() const { return view_; }
  const std::string_view* operator->() const { return &view_; }

  /// Copies a small part, so that no part keeps more than twice its size allocated.
  /// REQUIRES: `part` lies within these bytes.
  SharedBytes part(std::string_view part) const {
    if (part.size() * 2 < pinned_) return std::make_shared<const std::string>(part);
    return {owner_, part, pinned_};
  }

 private:
  std::shared_ptr<const void> owner_;
  std::string_view view_;
  std::size_t pinned_ = 0;
};

}  // namespace tt::base
