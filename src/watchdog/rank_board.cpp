#include "tensor_tracer/watchdog/rank_board.h"

#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "tensor_tracer/base/private_file.h"

namespace tt::watchdog {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxBytes = std::size_t{1} << 20U;

}  // namespace

RankBoard::RankBoard(std::string folder, int rank) : folder_(std::move(folder)), rank_(rank) {}

bool RankBoard::make(const std::string& folder) {
  std::error_code failure;
  fs::remove_all(folder, failure);
  if (!fs::create_directory(folder, failure) || failure) return false;
  fs::permissions(folder, fs::perms::owner_all, failure);
  return !failure;
}

bool RankBoard::is_visible(const std::string& folder) {
  std::error_code failure;
  return !folder.empty() && fs::is_directory(folder, failure);
}

std::string RankBoard::file_of(int rank) const {
  return folder_ + "/rank-" + std::to_string(rank) + ".json";
}

// A full disk may keep the last state: the next one may fit.
void RankBoard::publish(const RankState& state) const {
  if (is_visible(folder_)) (void)base::write_private_file(file_of(rank_), to_json_text(state));
}

std::vector<std::optional<RankState>> RankBoard::read(int ranks) const {
  std::vector<std::optional<RankState>> states(static_cast<std::size_t>(ranks));
  if (folder_.empty()) return states;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto text = base::read_small_file(file_of(rank), kMaxBytes);
    if (text) states[static_cast<std::size_t>(rank)] = parse_rank_state(text.value());
  }
  return states;
}

// A link is made whole, by one rank only, also on a network's file system.
bool RankBoard::raise(const Alarm& alarm) const {
  const std::string mine = folder_ + "/alarm-" + std::to_string(rank_);
  const nlohmann::json form = {{"reason", alarm.reason},
                               {"reporter", alarm.reporter},
                               {"ends", alarm.ends},
                               {"live", alarm.live}};
  const std::string text = form.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  // A rank without a common folder knows of no other alarm.
  if (!is_visible(folder_) || !base::write_private_file(mine, text)) return true;
  return ::link(mine.c_str(), (folder_ + "/alarm").c_str()) == 0;
}

std::optional<Alarm> RankBoard::alarm() const {
  std::error_code absent;
  if (folder_.empty() || !fs::exists(folder_ + "/alarm", absent)) return std::nullopt;
  const auto text = base::read_small_file(folder_ + "/alarm", kMaxBytes);
  if (!text) return std::nullopt;
  try {
    const nlohmann::json form = nlohmann::json::parse(text.value());
    return Alarm{form.at("reason"), form.at("reporter"), form.at("ends"), form.at("live")};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

void RankBoard::leave() const {
  std::error_code ignored;
  if (!is_visible(folder_)) return;
  fs::remove(file_of(rank_), ignored);
  fs::remove(folder_, ignored);  // an empty folder only
}

}  // namespace tt::watchdog
