#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tensor_tracer/config/hub_config.h"

namespace tt::config {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

TEST(RunFile, HoldsAllSettingsAndIsPrivate) {
  const std::string folder = testing::TempDir() + "run_file_test";
  fs::create_directories(folder);
  HubConfig config;
  config.run_id = "5f0c00000000abcd";
  config.port = 0;
  config.auth = "none";
  config.allow_origin = {"http://a", "http://b"};
  config.lease_seconds = 0.1;
  config.print_url = false;
  config.recording.record = "kept";
  config.recording.record_max_bytes = std::uint64_t{1} << 63U;
  config.alarm.alarm_command = {"notify", "-s"};
  config.linger = true;
  ASSERT_TRUE(write_run_file(folder, config).ok());
  EXPECT_EQ(fs::status(run_file_path(folder)).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  const json written = json::parse(std::ifstream(run_file_path(folder)));
  fs::remove_all(folder);
  const json expected = {{"version", 1},
                         {"run_id", "5f0c00000000abcd"},
                         {"port", 0},
                         {"auth", "none"},
                         {"allow_origin", {"http://a", "http://b"}},
                         {"log_format", "json"},
                         {"lease_seconds", 0.1},
                         {"idle_seconds", 30},
                         {"ready_timeout", 300},
                         {"print_url", false},
                         {"record", "kept"},
                         {"record_max_bytes", std::uint64_t{1} << 63U},
                         {"record_every", 1},
                         {"alarm_command", {"notify", "-s"}},
                         {"alarm_pause_timeout", 1800},
                         {"spike_recorder", 0},
                         {"linger", true}};
  EXPECT_EQ(written, expected);
}

TEST(RunFile, OfAnotherVersionIsRefused) {
  HubConfig config;
  config.version = 2;
  const base::Status status = check(run_file_options(config));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(to_string(status.error()), "--version: 2 is a version that this program does not know");
}

}  // namespace
}  // namespace tt::config
