#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace tt::hub {

/// The memory and the waiting places that all answers to GET /history use together. Thread: any.
class HistoryLoad {
 public:
  /// Above this limit no more answers are made.
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 20U;
  /// The limit of questions that wait for the reading thread.
  static constexpr std::size_t kMaxWaiting = 128;

  /// A part of the load, for as long as it lives. Owner: the request that causes it; the load
  /// outlives the part.
  class Part {
   public:
    Part(std::atomic<std::size_t>& sum, std::size_t amount) : sum_(sum), amount_(amount) {
      sum_ += amount_;
    }
    ~Part() { sum_ -= amount_; }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    std::atomic<std::size_t>& sum_;
    const std::size_t amount_;
  };

  bool has_room() const { return bytes_ < kMaxBytes; }
  bool is_busy() const { return waiting_ >= kMaxWaiting; }
  std::shared_ptr<Part> add_bytes(std::size_t bytes) {
    return std::make_shared<Part>(bytes_, bytes);
  }
  std::shared_ptr<Part> add_waiting() { return std::make_shared<Part>(waiting_, 1U); }

 private:
  std::atomic<std::size_t> bytes_ = 0;  // of answers that are not completely written
  std::atomic<std::size_t> waiting_ = 0;
};

}  // namespace tt::hub
