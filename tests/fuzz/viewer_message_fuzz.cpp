// WebSocket messages → the room's commands. An input is a list of events with the byte 0x1E between
// them, which no JSON text holds. The first byte of an event says what happens, the rest is its
// text:
//
//   a b c   text of a viewer; a and b say hello first, c does not
//   A B C   the same, binary
//   w x     text of a worker; w says hello first, x does not
//   W X     a record, its CRC mended
//   R       8 bytes each: a record of w: entry, layer, point, plan, prompt set, 8-byte words of
//           payload, two spare ones
//   r       everybody reads what waits
//   d       the clients named in the text leave
//   t       so many seconds go by
//
// Clients connect when they are first named, and again after they have left; without a text that is
// all.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/hub/room/room.h"
#include "tensor_tracer/protocol/crc32c.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace std::chrono_literals;
using namespace tt::hub;
using nlohmann::json;
using tt::fuzz::require;
namespace protocol = tt::protocol;

constexpr char kSeparator = '\x1E';
constexpr std::size_t kQueueBytes = 16'000;
constexpr std::size_t kMaxEvents = 200;
constexpr std::uint64_t kLastId = protocol::kMaxMessageId;

const RoomOptions kRoom{
    .lease = 30s,
    .request_timeout = 60s,
    .hello_timeout = 10s,
    .latest_bytes = 4000,
    .queue = {.total_bytes = kQueueBytes, .fresh_bytes = 1000, .batch_bytes = 1000}};

/// One connection. What a session does with a closed client, it does: nothing more is said.
class FuzzClient : public Client {
 public:
  FuzzClient(Role role, Room& room) : Client(role, room.make_queue()) {}
  void wake() override {}
  void close(std::string_view reason) override { closed_ = reason; }
  void close_after_sending(std::string_view reason) override { closed_ = reason; }

  const std::string& closed() const { return closed_; }
  /// `text` is about to be said: it may need an answer.
  void expect(std::string_view text) {
    const protocol::Message message = protocol::parse_message(text);
    if (const auto* request = std::get_if<protocol::Request>(&message))
      ++expected_[request->id];
    else if (const auto* malformed = std::get_if<protocol::Malformed>(&message))
      ++expected_[malformed->id];
  }
  /// Takes all that waits; the last answer to `id`, if there is one.
  json read(std::uint64_t id = 0) {
    json last;
    for (Outgoing next = queue().pop(); !next.empty(); next = queue().pop()) {
      if (next.text) {
        json said = json::parse(*next.parts.front());
        count(said);
        if (said.value("id", std::uint64_t{0}) == id) last = std::move(said);
      }
    }
    return last;
  }
  /// No request has more than one answer; if `all`, each one has one.
  void check_answers(bool all) {
    read();
    for (const auto& [id, answers] : seen_)
      require(id == 0 || answers <= expected_[id], "an answer nobody asked for");
    for (const auto& [id, requests] : expected_)
      require(!all || id == 0 || seen_[id] == requests, "a request without an answer");
  }
  void check_queue(std::size_t besides) {
    require(queue().bytes() <= kQueueBytes + besides, "the queue is bounded");
  }

 private:
  static bool is_worker_event(const json& said) {
    const std::string event = said.value("event", "");
    return event == "viewers" || event == "control" || event == "alarm" || event == "notice";
  }
  void count(const json& said) {
    const bool answer = said.contains("result") || said.contains("error");
    const bool worker = role() == Role::kWorker;
    require(answer || (worker ? said.contains("method") || is_worker_event(said)
                              : said.contains("event")),
            "a message is an answer, a request to the trainer or an event");
    if (answer) ++seen_[said.at("id").get<std::uint64_t>()];
  }

  std::string closed_;
  std::map<std::uint64_t, std::size_t> expected_;
  std::map<std::uint64_t, std::size_t> seen_;
};

protocol::RecordHeader header_of(std::string_view fields) {
  const auto number = [&](std::size_t at) { return static_cast<std::uint8_t>(fields[at]); };
  protocol::RecordHeader header;
  header.entry = number(0);
  header.layer = number(1);
  header.point = number(2);
  header.plan = number(3);
  header.prompt_set = number(4);
  header.dtype = protocol::Dtype::kF64;
  header.ndim = 1;
  header.shape = {number(5), 1, 1, 1};
  return header;
}

std::string make_records(std::string_view text) {
  constexpr std::size_t kFields = 8;
  std::string message;
  for (; text.size() >= kFields; text.remove_prefix(kFields)) {
    const protocol::RecordHeader header = header_of(text);
    const std::vector<double> payload(header.shape[0], 0.5);
    protocol::append_record(message, header, std::as_bytes(std::span(payload)));
  }
  return message;
}

std::string mend(std::string_view text) {
  constexpr std::size_t kCrcAt = 124;
  std::string message(text);
  if (message.size() >= protocol::kRecordHeaderBytes) {
    const std::uint32_t crc = protocol::crc32c(std::as_bytes(std::span(message.data(), kCrcAt)));
    std::memcpy(message.data() + kCrcAt, &crc, sizeof(crc));
  }
  return message;
}

class Play {
 public:
  void event(char what, std::string_view text) {
    if (is_client(what)) {
      join(what);
      if (!text.empty()) say(what, text);
    } else if (what == 'r') {
      for (const auto& [name, client] : clients_) client->read();
    } else if (what == 'd') {
      for (const char name : text) drop(name);
    } else if (what == 't') {
      pass_time(text);
    } else {
      say_binary(what, text);
    }
    settle();
  }

  void finish() {
    check_lease();
    for (const auto& [name, client] : clients_) client->read();
    room_.tick(now_ += kRoom.request_timeout);
    for (const char worker : std::string_view("wx"))
      drop(worker);  // without a trainer nothing waits on
    for (const auto& [name, client] : clients_)
      client->check_answers(client->closed() != "too slow");
    while (!clients_.empty()) leave(clients_.begin()->first);
  }

 private:
  static bool is_client(char name) {
    return std::string_view("abcwx").find(name) != std::string_view::npos;
  }

  void join(char name) {
    if (clients_.contains(name)) return;
    const bool worker = name == 'w' || name == 'x';
    auto client = std::make_unique<FuzzClient>(worker ? Role::kWorker : Role::kViewer, room_);
    room_.join(*client, now_);
    clients_[name] = std::move(client);
    if (name == 'w') {
      say(name, R"({"id":1,"method":"hello","params":{"versions":[1],"role":"worker","run":{"id":)"
                R"("5f0c1234abcd5678","points":[{"name":"MLP1","flag":4}]}}})");
    } else if (name == 'a' || name == 'b') {
      say(name, R"({"id":1,"method":"hello","params":{"versions":[1],"role":"viewer"}})");
    }
  }

  void say(char name, std::string_view text) {
    paced_ = paced_ || text.find("rate") != std::string_view::npos;
    biggest_ = std::max(biggest_, text.size());
    clients_.at(name)->expect(text);
    room_.on_text(*clients_.at(name), text, now_);
  }

  void say_binary(char what, std::string_view text) {
    const bool made = what == 'R';
    const char name = made ? 'w' : static_cast<char>(what - 'A' + 'a');
    if (is_client(name)) {
      join(name);
      const std::string message = made ? make_records(text) : mend(text);
      biggest_ = std::max(biggest_, message.size());
      all_ += message.size();
      room_.on_binary(*clients_.at(name), message, now_);
    }
  }

  void pass_time(std::string_view text) {
    constexpr unsigned kMaxSeconds = 1000;
    unsigned seconds = 0;
    std::from_chars(text.data(), text.data() + text.size(), seconds);
    now_ += std::chrono::seconds(std::min(seconds, kMaxSeconds));
    room_.tick(now_);
  }

  void drop(char name) {
    if (clients_.contains(name)) {
      clients_.at(name)->check_answers(false);
      leave(name);
    }
  }

  void leave(char name) {
    room_.leave(*clients_.at(name));
    clients_.erase(name);
  }

  /// What sessions do between two messages: closed clients leave.
  void settle() {
    std::string gone;
    for (const auto& [name, client] : clients_) {
      // A record or data text that stays whatever its size, and the newest message: what a rate
      // held back comes as one.
      client->check_queue(biggest_ + (paced_ ? all_ : biggest_));
      if (!client->closed().empty()) gone += name;
    }
    for (const char name : gone) drop(name);
  }

  /// Only who holds the lease can give it back.
  void check_lease() {
    std::size_t holders = 0;
    for (const char name : std::string_view("abc")) {
      if (clients_.contains(name)) {
        clients_.at(name)->read();
        const json release = {{"id", kLastId}, {"method", "control.release"}};
        say(name, release.dump());
        holders += clients_.at(name)->read(kLastId).contains("result") ? 1 : 0;
      }
    }
    require(holders <= 1, "one session at most holds the lease");
  }

  Clock::time_point now_ = Clock::now();
  Room room_{kRoom};
  std::map<char, std::unique_ptr<FuzzClient>> clients_;
  std::size_t biggest_ = 0;  // message
  std::size_t all_ = 0;      // bytes of records
  bool paced_ = false;
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool quiet = (spdlog::set_level(spdlog::level::off), true);
  static_cast<void>(quiet);
  std::string_view rest = tt::fuzz::as_text(data, size);
  Play play;
  for (std::size_t events = 0; !rest.empty() && events < kMaxEvents; ++events) {
    const std::string_view event = rest.substr(0, rest.find(kSeparator));
    rest.remove_prefix(std::min(event.size() + 1, rest.size()));
    if (!event.empty()) play.event(event.front(), event.substr(1));
  }
  play.finish();
  return 0;
}
