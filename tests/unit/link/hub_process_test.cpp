#include "tensor_tracer/link/hub_process.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tt::link {
namespace {

// What start_hub() makes of what a hub says instead of its port.
base::Error error_of(const std::string& said) {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
  fs::create_directories(folder);
  const std::string program = folder / "hub";
  std::ofstream(program) << "#!/bin/sh\necho '{\"error\": " << said << "}' >&4\n";
  fs::permissions(program, fs::perms::owner_all);
  HubStart start;
  start.program = program;
  start.run_dir = folder / "run";
  const auto started = start_hub(start);
  fs::remove_all(folder);
  EXPECT_FALSE(started.ok());
  return started.ok() ? base::Error() : started.error();
}

TEST(StartHub, NamesTheTrainersFlagsNotTheHubs) {
  for (const char* code : {"port_in_use", "io_error"}) {
    const base::Error port = error_of(std::string(R"({"code": ")") + code +
                                      R"(", "where": "--port", "remedy": "give --port 0"})");
    EXPECT_EQ(port.code, code);
    EXPECT_EQ(port.where, "--tensor-tracer-port");
    EXPECT_EQ(port.remedy, "give --tensor-tracer-port 0 or another port");
  }
  const base::Error origin = error_of(
      R"({"code": "usage", "message": "m", "where": "--allow-origin", "remedy": "give it as a browser sends it"})");
  EXPECT_EQ(origin.code, "usage");
  EXPECT_EQ(origin.where, "--tensor-tracer-allow-origin");
  EXPECT_EQ(origin.remedy, "give it as a browser sends it");
}

TEST(StartHub, LeavesOtherErrorsAsTheyAre) {
  const base::Error other =
      error_of(R"({"code": "cannot_record", "where": "/disk", "remedy": "r"})");
  EXPECT_EQ(other.where, "/disk");
  EXPECT_EQ(other.remedy, "r");
}

}  // namespace
}  // namespace tt::link
