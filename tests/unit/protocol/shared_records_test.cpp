#include "tensor_tracer/protocol/shared_records.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tensor_tracer/protocol/record.h"

namespace tt::protocol {
namespace {

using base::SharedBytes;

constexpr std::size_t kLarge = std::size_t{64} << 10U;

std::string record(std::size_t payload_bytes, char value) {
  RecordHeader header{.dtype = Dtype::kU8, .ndim = 1};
  header.shape[0] = static_cast<std::uint32_t>(payload_bytes - kU8LineBytes);
  const std::string payload(payload_bytes, value);
  std::string out;
  append_record(out, header, std::as_bytes(std::span(payload.data(), payload.size())));
  return out;
}

/// Both sides in one process; each has a mapping of its own.
class SharedRecords : public testing::Test {
 protected:
  void SetUp() override { connect(std::size_t{1} << 20U); }
  void connect(std::size_t bytes) {
    writer_ = SharedWriter::create(bytes).value();
    reader_ = SharedReader::open(writer_->offer()).value();
  }
  std::vector<SharedBytes> take(std::string_view places) {
    auto taken = reader_->take(places);
    EXPECT_TRUE(taken) << base::to_string(taken.error());
    return taken ? std::move(taken).value() : std::vector<SharedBytes>();
  }
  std::string pass(std::string_view message) {
    std::string out;
    for (const SharedBytes& block : take(writer_->put(message).value())) out += *block;
    return out;
  }
  // How many of these fit now.
  std::size_t count_room(const std::string& message) {
    std::vector<SharedBytes> held;
    while (const auto places = writer_->put(message)) held.push_back(take(*places).at(0));
    if (const auto taken = reader_->told_now()) writer_->on_taken(*taken);
    return held.size();
  }

  std::unique_ptr<SharedWriter> writer_;
  std::unique_ptr<SharedReader> reader_;
};

TEST_F(SharedRecords, WhatIsTakenIsWhatWasPut) {
  std::string message;
  for (const std::size_t bytes :
       {100, 60000, 200, 300, 16256, 16384, 5000, 5000, 5000, 5000, 90000}) {
    message += record(bytes, static_cast<char>(bytes % 100));
    EXPECT_EQ(pass(message), message);
  }
}

TEST_F(SharedRecords, ALargeRecordHasABlockOfItsOwnAndSmallOnesShareOne) {
  std::string message = record(100, 'a') + record(100, 'b');
  message += record(kLarge, 'c') + record(100, 'd') + record(kLarge, 'e');
  const auto blocks = take(writer_->put(message).value());
  ASSERT_EQ(blocks.size(), 4U);
  EXPECT_EQ(*blocks[0], record(100, 'a') + record(100, 'b'));
  EXPECT_EQ(*blocks[1], record(kLarge, 'c'));
  EXPECT_EQ(*blocks[3], record(kLarge, 'e'));
}

TEST_F(SharedRecords, SeveralMessagesTravelInOne) {
  const std::string places =
      writer_->put(record(kLarge, 'a')).value() + writer_->put(record(kLarge, 'b')).value();
  std::string_view rest = places;
  EXPECT_EQ(*reader_->take(rest).value().at(0), record(kLarge, 'a'));
  ASSERT_TRUE(SharedReader::is_places(rest));
  EXPECT_EQ(*reader_->take(rest).value().at(0), record(kLarge, 'b'));
  EXPECT_FALSE(SharedReader::is_places(rest));
}

TEST_F(SharedRecords, WhatIsHeldIsNotWrittenOver) {
  const SharedBytes held = take(writer_->put(record(kLarge, 'h')).value()).at(0);
  for (int i = 0; i < 100; ++i) pass(record(kLarge, static_cast<char>(i)));
  EXPECT_EQ(*held, record(kLarge, 'h'));
}

TEST_F(SharedRecords, TheMemoryIsUsedAgainWhateverIsHeldMeanwhile) {
  std::mt19937 random(1);
  std::vector<std::pair<SharedBytes, std::string>> held(8);
  for (int i = 0; i < 3000; ++i) {
    const std::string message = record(16384 + random() % 40000, static_cast<char>(i));
    const auto places = writer_->put(message);
    ASSERT_TRUE(places) << "put " << i;
    held[random() % held.size()] = {take(*places).at(0), message};
    for (const auto& [bytes, expected] : held) ASSERT_EQ(*bytes, expected);
  }
}

TEST_F(SharedRecords, AMessageThatDoesNotFitLeavesNothingBehind) {
  const std::string one = record(kLarge, '1');
  const std::size_t room = count_room(one);
  EXPECT_EQ(room, 15U);
  std::string large;
  for (std::size_t i = 0; i <= room; ++i) large += one;
  EXPECT_FALSE(writer_->put(large));
  EXPECT_EQ(count_room(one), room);
  EXPECT_TRUE(writer_->may_put()) << "what was not put is not waited for";
}

TEST_F(SharedRecords, AMessageThatDoesNotFitLeavesNothingBehindWhateverIsFreedMeanwhile) {
  connect(std::size_t{8} << 20U);
  const std::string one = record(kLarge, '1');
  const std::size_t room = count_room(one);
  ASSERT_GT(room, 100U) << "more than are looked at before each message";
  std::string large;
  for (std::size_t i = 0; i <= room; ++i) large += one;
  EXPECT_FALSE(writer_->put(large));
  EXPECT_EQ(count_room(one), room);
}

std::size_t memory_taken(int fd) {
  struct stat facts {};
  EXPECT_EQ(::fstat(fd, &facts), 0);
  return static_cast<std::size_t>(facts.st_blocks) * 512;
}

TEST_F(SharedRecords, OneBlockThatIsHeldDoesNotKeepTheMemoryOfAnEndedConnection) {
  connect(std::size_t{8} << 20U);
  const base::ScopedFd memory(::dup(writer_->offer().at("fd").get<int>()));
  const std::string one = record(kLarge, '1');
  std::vector<SharedBytes> held;
  for (int i = 0; i < 50; ++i) held.push_back(take(writer_->put(one).value()).at(0));
  EXPECT_GT(memory_taken(memory.get()), 50 * kLarge);
  SharedBytes last = std::move(held.at(20));
  held.erase(held.begin(), held.begin() + 40);
  writer_.reset();
  reader_.reset();
  EXPECT_LT(memory_taken(memory.get()), 14 * kLarge);
  held.clear();
  EXPECT_LT(memory_taken(memory.get()), 2 * kLarge);
  EXPECT_EQ(*last, one);
  last = {};
  EXPECT_LE(memory_taken(memory.get()), 8192U);
}

TEST_F(SharedRecords, WhereFilesMayNotBeSoLongNothingIsShared) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit low{.rlim_cur = std::size_t{1} << 20U, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  const bool made = SharedWriter::create(std::size_t{2} << 20U).ok();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_FALSE(made);
}

TEST_F(SharedRecords, WhatIsHeldOutlivesBothSides) {
  const SharedBytes held = take(writer_->put(record(kLarge, 'h')).value()).at(0);
  writer_.reset();
  reader_.reset();
  EXPECT_EQ(*held, record(kLarge, 'h'));
}

TEST_F(SharedRecords, TheWorkerIsNeverFurtherAheadThanItMayBe) {
  const std::string message = record(kLarge, 'a');
  std::vector<std::string> waiting;
  while (writer_->may_put()) waiting.push_back(writer_->put(message).value());
  EXPECT_EQ(waiting.size(), 8U);
  EXPECT_FALSE(reader_->told_now());
  std::uint64_t told = 0;
  for (const std::string& places : waiting) {
    take(places);
    if (const auto now = reader_->told_now()) {
      writer_->on_taken(told = *now);
      EXPECT_TRUE(writer_->may_put());
    }
  }
  EXPECT_EQ(told, 8 * message.size());
}

TEST_F(SharedRecords, OneLongMessageWaitsWhileTheHubIsBusyWithAnother) {
  connect(std::size_t{8} << 20U);
  const std::string message = record(2 * kSharedAhead, 'a');
  const std::string first = writer_->put(message).value();
  EXPECT_TRUE(writer_->may_put());
  const std::string second = writer_->put(message).value();
  EXPECT_FALSE(writer_->may_put());
  take(first);
  writer_->on_taken(reader_->told_now().value());
  EXPECT_TRUE(writer_->may_put());
  EXPECT_EQ(*take(second).at(0), message);
}

TEST_F(SharedRecords, APlaceIsTakenOnceAndOnlyIfItWasHandedOver) {
  const std::string places = writer_->put(record(kLarge, 'a')).value();
  const auto held = take(places);
  std::string_view again = places;
  const auto second = reader_->take(again);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, "invalid_record");
}

// What a worker writes that breaks the rules: the state of a block that the hub holds.
TEST_F(SharedRecords, WhatIsHeldIsNotTakenAgainWhateverTheWorkerWrites) {
  const std::string places = writer_->put(record(kLarge, 'a')).value();
  auto held = take(places);
  auto* const begin = reinterpret_cast<std::uint32_t*>(const_cast<char*>(held.at(0)->data()) - 64);
  std::uint64_t offset = 0;
  std::memcpy(&offset, places.data() + 8, sizeof(offset));
  for (const std::uint64_t inside : {std::uint64_t{0}, std::uint64_t{64}, std::uint64_t{6400}}) {
    begin[inside / sizeof(*begin)] = 1;
    std::string again = places;
    const std::uint64_t at = offset + inside;
    const std::uint64_t bytes = 64;
    std::memcpy(again.data() + 8, &at, sizeof(at));
    std::memcpy(again.data() + 16, &bytes, sizeof(bytes));
    std::string_view rest = again;
    EXPECT_FALSE(reader_->take(rest)) << inside;
  }
  held.clear();
  EXPECT_EQ(pass(record(kLarge, 'b')), record(kLarge, 'b'));
}

TEST_F(SharedRecords, NoPlaceLeadsOutOfTheMemory) {
  const std::string good = writer_->put(record(kLarge, 'a')).value();
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const auto changed = [&good](std::size_t at, std::uint64_t number) {
    std::string places = good;
    std::memcpy(places.data() + at, &number, sizeof(number));
    return places;
  };
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{32}, std::uint64_t{1} << 20U,
                                     (std::uint64_t{1} << 20U) - 64, kMost, kMost - 63}) {
    const std::string places = changed(8, offset);
    std::string_view rest = places;
    EXPECT_FALSE(reader_->take(rest)) << offset;
  }
  for (const std::uint64_t bytes : {std::uint64_t{1} << 20U, kMost, kMost - 127}) {
    const std::string places = changed(16, bytes);
    std::string_view rest = places;
    EXPECT_FALSE(reader_->take(rest)) << bytes;
  }
  for (std::size_t length = 8; length < good.size(); ++length) {
    std::string_view cut = std::string_view(good).substr(0, length);
    EXPECT_FALSE(reader_->take(cut)) << length;
  }
}

TEST_F(SharedRecords, OnlyTheMemoryThatWasMeantIsOpened) {
  const nlohmann::json offer = writer_->offer();
  const auto refused = [&offer](const char* member, const nlohmann::json& value) {
    nlohmann::json other = offer;
    other[member] = value;
    const auto opened = SharedReader::open(other);
    return opened ? std::string("opened") : opened.error().code;
  };
  EXPECT_EQ(refused("key", "00000000000000000000000000000000"), "shared_memory");
  EXPECT_EQ(refused("key", ""), "shared_memory");
  EXPECT_EQ(refused("key", 1), "invalid_argument");
  EXPECT_EQ(refused("bytes", 1U << 19U), "shared_memory");
  EXPECT_EQ(refused("bytes", 1ULL << 40U), "invalid_argument");
  EXPECT_EQ(refused("bytes", 8U), "invalid_argument");
  EXPECT_EQ(refused("pid", 0U), "shared_memory");
  EXPECT_EQ(refused("pid", -1), "invalid_argument");
  EXPECT_EQ(refused("fd", 1U << 20U), "shared_memory");
  EXPECT_EQ(refused("fd", "../../../etc/passwd"), "invalid_argument");
  for (const nlohmann::json& none :
       {nlohmann::json(), nlohmann::json("x"), nlohmann::json::array()}) {
    EXPECT_FALSE(SharedReader::open(none));
  }
}

// A file that its owner could shorten would end the hub when it reads what is gone.
TEST_F(SharedRecords, WhatCouldShrinkIsNotOpened) {
  nlohmann::json offer = writer_->offer();
  const auto bytes = offer.at("bytes").get<std::size_t>();
  const base::ScopedFd unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const std::string path = testing::TempDir() + "tt_shared_records";
  const base::ScopedFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  for (const int fd : {unsealed.get(), file.get()}) {
    const auto key = offer.at("key").get<std::string>();
    ASSERT_EQ(::ftruncate(fd, static_cast<off_t>(bytes)), 0);
    ASSERT_EQ(::pwrite(fd, key.data(), key.size(), 0), static_cast<ssize_t>(key.size()));
    offer["fd"] = fd;
    EXPECT_FALSE(SharedReader::open(offer));
  }
  ASSERT_EQ(::fcntl(unsealed.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  offer["fd"] = unsealed.get();
  EXPECT_TRUE(SharedReader::open(offer));
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace tt::protocol
