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

/// Records that a worker leaves in memory which it shares with the hub, and messages that say
/// where: "Shared memory" of docs/protocol.md.
namespace tt::protocol {

/// A worker's most shared memory. What is never needed is never taken.
inline constexpr std::size_t kSharedBytes = std::size_t{256} << 20U;
/// So much may lie there that the hub has not taken, or one message, and another message. Little,
/// so that the hub does not take more than it can pass on: with 2 MiB more than half of a flood of
/// 64 KiB records was replaced in a viewer's queue.
inline constexpr std::uint64_t kSharedAhead = std::size_t{512} << 10U;
/// Bytes after which the hub says that it has taken them.
inline constexpr std::size_t kTellTaken = std::size_t{128} << 10U;
/// Below this a message or a record is as well copied.
inline constexpr std::size_t kWorthSharing = std::size_t{16} << 10U;

/// The worker's side. A block is used again once the hub needs it no more.
/// Thread: one at a time. Owner: the memory; blocks that the hub holds stay readable without it.
class SharedWriter {
 public:
  static base::Result<std::unique_ptr<SharedWriter>> create(std::size_t bytes = kSharedBytes);
  SharedWriter(const SharedWriter&) = delete;
  SharedWriter& operator=(const SharedWriter&) = delete;

  /// The member `shared_memory` of the worker's hello.
  nlohmann::json offer() const;
  /// Copies the records of a message and returns what to send in its place; several of these may
  /// go end to end in one message. Nothing: there is no room, so that the records must be sent
  /// themselves.
  std::optional<std::string> put(std::string_view records);
  /// False while kSharedAhead lies there untaken and more than the last message: `taken` of the
  /// hub will change that.
  bool may_put() const {
    return put_bytes_ - taken_bytes_ < std::max(kSharedAhead, last_bytes_ + 1);
  }
  /// The number of the hub's notification `taken`.
  void on_taken(std::uint64_t bytes) { taken_bytes_ = std::min(bytes, put_bytes_); }

 private:
  struct Block {
    std::size_t offset = 0;
    std::size_t bytes = 0;  // with what precedes the records
  };
  using Held = std::list<Block>;

  SharedWriter(base::SealedMemory memory, std::string key);
  std::optional<std::size_t> put_block(std::string_view records);
  /// Takes so many blocks back that the hub has not been told of.
  void undo(std::size_t blocks);
  std::optional<std::size_t> find_room(std::size_t bytes);
  std::optional<std::size_t> first_fit(std::size_t bytes);
  /// Looks at so many held blocks, from the one after those it looked at last.
  void reclaim(std::size_t count);
  void free(Block block);
  bool reserve(std::size_t end);

  base::SealedMemory memory_;
  std::string key_;
  std::map<std::size_t, std::size_t> room_;  // offset -> bytes; no two are neighbours
  Held held_;                                // by the hub, oldest first
  Held::iterator next_ = held_.end();        // to be looked at
  std::size_t reserved_ = 0;                 // from the memory's beginning
  std::uint64_t put_bytes_ = 0;
  std::uint64_t last_bytes_ = 0;  // of these, of the last message
  std::uint64_t taken_bytes_ = 0;
};

/// The hub's side. Thread: one at a time; what take() returns belongs to any. When it ends, all
/// memory but that of what somebody still holds is given back, and that when it is let go of.
class SharedReader {
 public:
  ~SharedReader();
  SharedReader(const SharedReader&) = delete;
  SharedReader& operator=(const SharedReader&) = delete;

  /// Of the member `shared_memory` of a hello. The error's code is "invalid_argument" or
  /// "shared_memory".
  static base::Result<std::unique_ptr<SharedReader>> open(const nlohmann::json& offer);

  /// Does this begin with what put() returns?
  static bool is_places(std::string_view message);
  /// Takes the first of them off `places`, and what lies there: the records of one message, each
  /// with its block, which the worker gets back when the last copy goes. The error's code is
  /// "invalid_record": a place that the worker did not hand over.
  /// REQUIRES: is_places(places).
  base::Result<std::vector<base::SharedBytes>> take(std::string_view& places);
  /// Bytes that were taken since the beginning, when it is time to tell the worker.
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
