#include "tensor_tracer/protocol/shared_records.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/endian/conversion.hpp>
#include <cstring>
#include <iterator>
#include <limits>
#include <mutex>
#include <utility>

#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/protocol/record.h"

namespace tt::protocol {
namespace {

using base::SealedMemory;
using base::SharedBytes;

constexpr std::uint32_t kPlacesMagic = 0x31535454;  // "TTS1"
constexpr std::size_t kPlacesHead = 8;
constexpr std::size_t kPlaceBytes = 16;
constexpr std::size_t kBlockHead = 64;  // also the alignment of a block's offset
constexpr std::size_t kKeyBytes = 16;   // written as twice as many hex digits
constexpr std::size_t kReserveAtOnce = std::size_t{1} << 20U;
constexpr std::size_t kReclaimAtOnce = 64;

enum BlockState : std::uint32_t { kWorkers = 0, kHandedOver = 1, kTaken = 2 };

std::atomic_ref<std::uint32_t> state_of(std::span<std::byte> memory, std::size_t offset) {
  return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(memory.data() + offset));
}

template <typename Number>
void append(std::string& out, Number number) {
  boost::endian::native_to_little_inplace(number);
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

template <typename Number>
Number read_at(std::string_view bytes, std::size_t offset) {
  Number number = 0;
  std::memcpy(&number, bytes.data() + offset, sizeof(number));
  return boost::endian::little_to_native(number);
}

// Puts each large record into a chunk by itself, so that the hub can keep it without the others.
// Small records share a chunk.
std::vector<std::string_view> split_to_chunks(std::string_view message) {
  std::vector<std::string_view> chunks;
  RecordReader reader(message, RecordCheck::kHeader);
  const char* begin = message.data();
  const char* end = begin;
  const auto cut = [&] {
    if (end != begin) chunks.emplace_back(begin, end);
    begin = end;
  };
  while (const auto record = reader.next()) {
    if (record->whole.size() >= kWorthSharing) cut();
    end = record->whole.data() + record->whole.size();
    if (static_cast<std::size_t>(end - begin) >= kWorthSharing) cut();
  }
  end = message.data() + message.size();
  cut();
  return chunks;
}

}  // namespace

SharedWriter::SharedWriter(SealedMemory memory, std::string key)
    : memory_(std::move(memory)), key_(std::move(key)) {
  std::memcpy(memory_.bytes().data(), key_.data(), key_.size());
  room_.emplace(kBlockHead, memory_.bytes().size() - kBlockHead);
}

base::Result<std::unique_ptr<SharedWriter>> SharedWriter::create(std::size_t bytes) {
  base::Result<SealedMemory> memory = SealedMemory::create("tensor-tracer", bytes);
  if (!memory) {
    return memory.error();
  }
  if (base::Status first = memory.value().reserve(0, kBlockHead); !first.ok()) {
    return first.error();
  }
  return std::unique_ptr<SharedWriter>(
      new SharedWriter(std::move(memory).value(), base::random_hex(kKeyBytes)));
}

nlohmann::json SharedWriter::offer() const {
  return {
      {"pid", ::getpid()}, {"fd", memory_.fd()}, {"bytes", memory_.bytes().size()}, {"key", key_}};
}

std::optional<std::string> SharedWriter::put(std::string_view records) {
  reclaim(kReclaimAtOnce);
  const std::vector<std::string_view> chunks = split_to_chunks(records);
  std::string places;
  append(places, kPlacesMagic);
  append(places, static_cast<std::uint32_t>(chunks.size()));
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const auto offset = put_block(chunks[i]);
    if (!offset) {
      undo(i);
      return std::nullopt;
    }
    append(places, std::uint64_t{*offset});
    append(places, std::uint64_t{chunks[i].size()});
  }
  last_bytes_ = records.size();
  put_bytes_ += last_bytes_;
  return places;
}

void SharedWriter::undo(std::size_t blocks) {
  for (; blocks > 0; --blocks) {
    const auto last = std::prev(held_.end());
    if (next_ == last) next_ = held_.end();
    free(*last);
    held_.erase(last);
  }
}

std::optional<std::size_t> SharedWriter::put_block(std::string_view records) {
  const std::size_t bytes =
      kBlockHead + (records.size() + kBlockHead - 1) / kBlockHead * kBlockHead;
  const auto offset = find_room(bytes);
  if (offset) {
    std::memcpy(memory_.bytes().data() + *offset + kBlockHead, records.data(), records.size());
    state_of(memory_.bytes(), *offset).store(kHandedOver, std::memory_order_release);
    held_.push_back({*offset, bytes});
  }
  return offset;
}

std::optional<std::size_t> SharedWriter::find_room(std::size_t bytes) {
  auto offset = first_fit(bytes);
  if (!offset || *offset + bytes > reserved_) {  // before more memory is taken
    if (offset) free({*offset, bytes});
    reclaim(held_.size());
    offset = first_fit(bytes);
  }
  if (offset && !reserve(*offset + bytes)) {
    free({*offset, bytes});
    return std::nullopt;
  }
  return offset;
}

std::optional<std::size_t> SharedWriter::first_fit(std::size_t bytes) {
  const auto found =
      std::ranges::find_if(room_, [bytes](const auto& room) { return room.second >= bytes; });
  if (found == room_.end()) {
    return std::nullopt;
  }
  const auto [offset, size] = *found;
  room_.erase(found);
  if (size > bytes) room_.emplace(offset + bytes, size - bytes);
  return offset;
}

void SharedWriter::reclaim(std::size_t count) {
  for (count = std::min(count, held_.size()); count > 0; --count) {
    if (next_ == held_.end()) next_ = held_.begin();
    const auto block = next_++;
    if (state_of(memory_.bytes(), block->offset).load(std::memory_order_acquire) == kWorkers) {
      free(*block);
      held_.erase(block);
    }
  }
}

void SharedWriter::free(Block block) {
  const auto after = room_.lower_bound(block.offset);
  if (after != room_.end() && block.offset + block.bytes == after->first) {
    block.bytes += after->second;
    room_.erase(after);
  }
  const auto next = room_.lower_bound(block.offset);
  if (next != room_.begin()) {
    auto& [offset, bytes] = *std::prev(next);
    if (offset + bytes == block.offset) {
      bytes += block.bytes;
      return;
    }
  }
  room_.emplace(block.offset, block.bytes);
}

bool SharedWriter::reserve(std::size_t end) {
  if (end <= reserved_) {
    return true;
  }
  const std::size_t desired = std::min((end + kReserveAtOnce - 1) / kReserveAtOnce * kReserveAtOnce,
                                       memory_.bytes().size());
  if (!memory_.reserve(reserved_, desired - reserved_).ok()) {
    return false;
  }
  reserved_ = desired;
  return true;
}

/// The memory and the list of blocks that the hub holds. Thread: any; guarded by mutex_.
class SharedReader::Blocks {
 public:
  explicit Blocks(SealedMemory memory) : memory_(std::move(memory)) {}

  std::span<std::byte> memory() const { return memory_.bytes(); }

  /// False if the worker has not handed over this block, or if the block overlaps with a held
  /// block.
  bool take(std::size_t offset, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto next = held_.lower_bound(offset);
    const bool free = (next == held_.end() || offset + bytes <= next->first) &&
                      (next == held_.begin() || std::prev(next)->second <= offset);
    std::uint32_t expected = kHandedOver;
    if (!free || !state_of(memory(), offset).compare_exchange_strong(expected, kTaken)) {
      return false;
    }
    held_.emplace_hint(next, offset, offset + bytes);
    return true;
  }

  void let_go(std::size_t offset) {
    const std::lock_guard lock(mutex_);
    const auto after = held_.erase(held_.find(offset));
    if (closed_) {
      discard_before(after);
    } else {
      state_of(memory(), offset).store(kWorkers, std::memory_order_release);
    }
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (auto block = held_.begin(); block != held_.end(); ++block) {
      discard_before(block);
    }
    discard_before(held_.end());
  }

 private:
  using Held = std::map<std::size_t, std::size_t>;  // offset -> end

  // Discards from the end of the previous held block to the start of `block`. A memory page is
  // freed once nobody holds any part of it.
  void discard_before(Held::iterator block) {
    const std::size_t begin = block == held_.begin() ? 0 : std::prev(block)->second;
    const std::size_t end = block == held_.end() ? memory().size() : block->first;
    memory_.discard(begin, end - begin);
  }

  SealedMemory memory_;
  std::mutex mutex_;
  Held held_;
  bool closed_ = false;
};

base::Result<std::unique_ptr<SharedReader>> SharedReader::open(const nlohmann::json& offer) {
  constexpr std::uint64_t kMaxInt = std::numeric_limits<int>::max();
  const auto pid = natural(offer, "pid");
  const auto fd = natural(offer, "fd");
  const auto bytes = natural(offer, "bytes");
  const std::string key = text_of(offer, "key");
  const bool fits = pid <= kMaxInt && fd <= kMaxInt && bytes <= kSharedBytes;
  if (!pid || !fd || !bytes || !fits || *bytes < kBlockHead || !member(offer, "key").is_string()) {
    return base::Error{"invalid_argument", "is not pid, fd, bytes and key", "shared_memory"};
  }
  base::Result<SealedMemory> memory =
      SealedMemory::open(static_cast<pid_t>(*pid), static_cast<int>(*fd), *bytes);
  if (!memory) {
    return memory.error();
  }
  if (key.size() != 2 * kKeyBytes ||
      std::memcmp(memory.value().bytes().data(), key.data(), key.size()) != 0) {
    return base::Error{"shared_memory", "this process has another memory there", "key"};
  }
  return std::unique_ptr<SharedReader>(new SharedReader(std::move(memory).value()));
}

SharedReader::SharedReader(SealedMemory memory)
    : blocks_(std::make_shared<Blocks>(std::move(memory))) {}

SharedReader::~SharedReader() { blocks_->close(); }

bool SharedReader::is_places(std::string_view message) {
  return message.size() >= kPlacesHead && read_at<std::uint32_t>(message, 0) == kPlacesMagic;
}

base::Result<std::vector<SharedBytes>> SharedReader::take(std::string_view& places) {
  const std::size_t count = read_at<std::uint32_t>(places, 4);
  places.remove_prefix(kPlacesHead);
  if (places.size() / kPlaceBytes < count) {
    return base::Error{"invalid_record", "there are fewer places than it says"};
  }
  std::vector<SharedBytes> taken;
  for (std::size_t i = 0; i < count; ++i, places.remove_prefix(kPlaceBytes)) {
    base::Result<SharedBytes> block =
        take_block(read_at<std::uint64_t>(places, 0), read_at<std::uint64_t>(places, 8));
    if (!block) {
      return block.error();
    }
    taken.push_back(std::move(block).value());
  }
  return taken;
}

base::Result<SharedBytes> SharedReader::take_block(std::uint64_t offset, std::uint64_t bytes) {
  const std::size_t size = blocks_->memory().size();
  const bool inside = offset % kBlockHead == 0 && offset >= kBlockHead && offset < size &&
                      bytes <= size && offset + kBlockHead + bytes <= size;
  if (!inside || !blocks_->take(offset, kBlockHead + bytes)) {
    return base::Error{"invalid_record", "nothing was handed over at this place",
                       std::to_string(offset)};
  }
  taken_bytes_ += bytes;
  // The owner of the bytes is the block. The whole memory is released with the last block.
  std::byte* const block = blocks_->memory().data() + offset;
  const std::shared_ptr<const void> owner(
      block, [blocks = blocks_, offset](const void*) { blocks->let_go(offset); });
  const auto* begin = reinterpret_cast<const char*>(block + kBlockHead);
  return SharedBytes(owner, {begin, static_cast<std::size_t>(bytes)}, bytes);
}

std::optional<std::uint64_t> SharedReader::told_now() {
  if (taken_bytes_ - told_bytes_ < kTellTaken) {
    return std::nullopt;
  }
  return told_bytes_ = taken_bytes_;
}

}  // namespace tt::protocol
