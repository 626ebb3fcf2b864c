#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string_view>
#include <vector>

#include "src/cli/commands.h"
#include "src/cli/exit_code.h"

namespace {

constexpr std::string_view kUsage =
    R"(Tensor Tracer: train GPT models and watch and steer their inside live.

  tensor-tracer train …   train, with the live page on --tensor-tracer-port
  tensor-tracer points …  list what can be traced, for the same options as train
  tensor-tracer check …   whether programs that change values fit a run
  tensor-tracer hub …     the page's server alone (the program tensor-tracer-hub)
  tensor-tracer replay …  the page over a recording
  tensor-tracer export …  a recording as NPZ, safetensors, CSV or TensorBoard events

  tensor-tracer COMMAND --help   all flags of a command
  tensor-tracer --version
)";

// Becomes the hub's program, which lies beside this one.
int become_hub(char** words_after_it) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = (self.parent_path() / "tensor-tracer-hub").string();
  std::string name = program;
  std::vector<char*> words = {name.data()};
  for (char** word = words_after_it; *word != nullptr; ++word) words.push_back(*word);
  words.push_back(nullptr);
  ::execv(program.c_str(), words.data());
  fmt::print(stderr, "tensor-tracer: {} cannot be started; build the target tensor-tracer-hub\n",
             program);
  return tt::cli::kExitUsage;
}

using Command = int (*)(int, const char* const*);

Command find_command(std::string_view name) {
  if (name == "train") return tt::cli::run_train;
  if (name == "points") return tt::cli::run_points;
  return name == "check" ? tt::cli::run_check : nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "--help";
  if (const Command run = find_command(command); run != nullptr) {
    try {
      return run(argc - 1, argv + 1);
    } catch (const std::exception& error) {
      fmt::print(stderr, "tensor-tracer: {}\n", error.what());
      return 1;
    }
  }
  if (command == "hub") return become_hub(argv + 2);
  if (command == "replay" || command == "export") return become_hub(argv + 1);
  if (command == "--version") {
    fmt::print("tensor-tracer {}\n", TT_VERSION);
    return 0;
  }
  if (command == "--help" || command == "-h") {
    fmt::print("{}", kUsage);
    return 0;
  }
  fmt::print(stderr, "tensor-tracer: unknown command \"{}\"; see --help\n", command);
  return tt::cli::kExitUsage;
}
