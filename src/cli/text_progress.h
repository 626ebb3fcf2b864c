#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>

#include "tensor_tracer/base/size_text.h"

namespace tt::cli {

/// Says on stderr how many of the texts are read, every ten seconds. Thread: one.
class TextProgress {
 public:
  explicit TextProgress(std::int64_t texts) : texts_(texts) {}
  /// A text was read.
  void add() {
    ++done_;
    const auto now = std::chrono::steady_clock::now();
    if (now - told_ < kPause) return;
    told_ = now;
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    const double left = seconds * static_cast<double>(texts_ - done_) / static_cast<double>(done_);
    fmt::print(stderr, "{} of {} texts, {:.0f} s left\n", base::with_commas(done_),
               base::with_commas(texts_), left);
  }

 private:
  static constexpr std::chrono::seconds kPause{10};
  const std::int64_t texts_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point told_ = begin_;
  std::int64_t done_ = 0;
};

}  // namespace tt::cli
