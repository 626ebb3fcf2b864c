#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/sealed_memory.h"
#include "tensor_tracer/base/shared_bytes.h"

/// Records that a worker leaves in memory shared with the hub, and the messages that state where
/// the records are: "Shared memory" of docs/protocol.md.
namespace tt::protocol {

/// The largest size of a worker's shared memory. Memory is taken only when it is needed.
inline constexpr std::size_t kSharedBytes = std::size_t{256} << 20U;
/// A worker may write another message if fewer bytes than this wait to be taken, or only the last
/// message waits. The number is small, so that the hub does not take more than it can pass on: with
/// 2 MiB a viewer's queue replaced more than half of a flood of 64 KiB records.
inline constexpr std::uint64_t kSharedAhead = std::size_t{512} << 10U;
/// After this number of bytes the hub reports that it has taken them.
inline constexpr std::size_t kTellTaken = std::size_t{128} << 10U;
/// A message or a record with fewer bytes is copied: sharing it saves no time.
inline constexpr std::size_t kWorthSharing = std::size_t{16} << 10U;

/// The worker's side. A block is used again once the hub no longer needs it.
/// Thread: one at a time. Owner: this object owns the memory; the hub can still read the blocks
/// that it holds after this object has ended.
class SharedWriter {
 public:
  static base::Result<std::unique_ptr<SharedWriter>> create(std::size_t bytes = kSharedBytes);
  SharedWriter(const SharedWriter&) = delete;
  SharedWriter& operator=(const SharedWriter&) = delete;

  /// The member `shared_memory` of the worker's hello.
  nlohmann::json offer() const;
  /// Copies the records of a message into the shared memory. Returns the bytes to send instead of
  /// the records; the bytes of several messages may be joined into one. Nothing: there is no room,
  /// and the records themselves must be sent.
  std::optional<std::string> put(std::string_view records);
  /// False while the bytes that the hub has not taken are kSharedAhead or more, and are more than
  /// the last message. The hub's notification `taken` can make it true again.
  bool may_put() const {
    return put_bytes_ - taken_bytes_ < std::max(kSharedAhead, last_bytes_ + 1);
  }
  /// `bytes`: the number in the hub's notification `taken`.
  void on_taken(std::uint64_t bytes) { taken_bytes_ = std::min(bytes, put_bytes_); }

 private:
  struct Block {
    std::size_t offset = 0;
    std::size_t bytes = 0;  // includes the bytes before the records
  };
  using Held = std::list<Block>;

  SharedWriter(base::SealedMemory memory, std::string key);
  std::optional<std::size_t> put_block(std::string_view records);
  /// Takes back the last `blocks` blocks, of which the hub has not been informed.
  void undo(std::size_t blocks);
  std::optional<std::size_t> find_room(std::size_t bytes);
  std::optional<std::size_t> first_fit(std::size_t bytes);
  /// Checks `count` held blocks, starting after the block that was checked last.
  void reclaim(std::size_t count);
  void free(Block block);
  bool reserve(std::size_t end);

  base::SealedMemory memory_;
  std::string key_;
  std::map<std::size_t, std::size_t> room_;  // offset -> bytes; no two are neighbours
  Held held_;                                // blocks that the hub holds, oldest first
  Held::iterator next_ = held_.end();        // the next block to check
  std::size_t reserved_ = 0;                 // bytes from the memory's beginning
  std::uint64_t put_bytes_ = 0;
  std::uint64_t last_bytes_ = 0;  // part of put_bytes_: the last message
  std::uint64_t taken_bytes_ = 0;
};

/// The hub's side. Thread: one at a time; any thread may use the results of take(). The destructor
/// frees the memory of all blocks that nobody holds. The memory of the other blocks is freed when
/// their last holder releases them.
class SharedReader {
 public:
  ~SharedReader();
  SharedReader(const SharedReader&) = delete;
  SharedReader& operator=(const SharedReader&) = delete;

  /// Opens the memory that the member `shared_memory` of a hello describes. The error's code is
  /// "invalid_argument" or "shared_memory".
  static base::Result<std::unique_ptr<SharedReader>> open(const nlohmann::json& offer);

  /// True if `message` begins with bytes that put() returned.
  static bool is_places(std::string_view message);
  /// Removes the places of one message from the front of `places`, and takes the records there: the
  /// records of one message, each with its block. The worker gets a block back when the last copy
  /// of its records has ended. The error's code is "invalid_record": the worker did not hand over
  /// this place.
  /// REQUIRES: is_places(places).
  base::Result<std::vector<base::SharedBytes>> take(std::string_view& places);
  /// The total number of taken bytes, if it is time to report it to the worker.
  std::optional<std::uint64_t> told_now();

 private:
  class Blocks;

  explicit SharedReader(base::SealedMemory memory);
  base::Result<base::SharedBytes> take_block(std::uint64_t offset, std::uint64_t bytes);

  std::shared_ptr<Blocks> blocks_;
  std::uint64_t taken_bytes_ = 0;
  std::uint64_t told_bytes_ = 0;
};

}  // namespace tt::protocol
