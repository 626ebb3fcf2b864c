#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "src/cli/commands.h"
#include "src/cli/exit_code.h"

namespace {

constexpr std::string_view kUsage =
    R"(Tensor Tracer: train GPT models; watch and steer their inside live.

  tensor-tracer train …      train, with the live page on --tensor-tracer-port
  tensor-tracer generate …   continue prompts with a model
  tensor-tracer supervise …  repeat a training command from its newest checkpoint if it fails
  tensor-tracer points …     list the trace points of a run with the same options
  tensor-tracer check …      check whether intervention programs fit a run
  tensor-tracer inspect …    show what a model, a checkpoint or a .safetensors file holds
  tensor-tracer convert …    write a checkpoint or a model in another form
  tensor-tracer vector …     make and read direction vectors, such as persona vectors
  tensor-tracer hub …        run only the server of the page (the program tensor-tracer-hub)
  tensor-tracer replay …     show a recording on the page
  tensor-tracer runs …       list recorded runs; remove or protect runs
  tensor-tracer export …     write a recording as NPZ, safetensors, CSV or TensorBoard events

  tensor-tracer COMMAND --help   all flags of a command
  tensor-tracer --version
)";

namespace fs = std::filesystem;

// The folder of this program and of the hub's program; empty if /proc does not show it.
fs::path program_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

// Replaces this process by another program. Its words are `words`, then the command line's words
// from `rest`.
int become(std::vector<std::string> words, char** rest, const char* remedy) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  for (char** word = rest; *word != nullptr; ++word) all.push_back(*word);
  all.push_back(nullptr);
  ::execvp(all.front(), all.data());
  fmt::print(stderr, "tensor-tracer: {} cannot be started; {}\n", words.front(), remedy);
  return tt::cli::kExitUsage;
}

int become_hub(char** rest) {
  return become({(program_folder() / "tensor-tracer-hub").string()}, rest,
                "build the target tensor-tracer-hub");
}

// Runs the installed package. The current folder is removed from the module path (Python adds it as
// ""): it may hold files of other users.
constexpr const char* kInstalledExport = R"(import sys
sys.path[:] = filter(None, sys.path)
import importlib.util, runpy
if not all(map(importlib.util.find_spec, ("tensor_tracer", "numpy", "google_crc32c"))):
    print("tensor-tracer: export needs the Python package of Tensor Tracer;",
          sys.executable, "-m pip install CHECKOUT/python", file=sys.stderr)
    sys.exit(2)
runpy.run_module("tensor_tracer", run_name="__main__"))";

// Runs the package of this checkout, with the checkout's interpreter if there is one. Outside a
// checkout, runs the installed package.
int become_export(char** rest) {
  const fs::path checkout = (program_folder() / "../../..").lexically_normal();
  const fs::path package = checkout / "python/tensor_tracer";
  const fs::path own = checkout / ".venv/bin/python";
  const char* remedy = "install Python 3.10 or newer";
  std::error_code ignored;
  if (checkout.is_relative() || !fs::exists(package, ignored))
    return become({"python3", "-c", kInstalledExport, "export"}, rest, remedy);
  return become({fs::exists(own, ignored) ? own.string() : "python3", package.string(), "export"},
                rest, remedy);
}

using Command = int (*)(int, const char* const*);

Command find_command(std::string_view name) {
  if (name == "train") return tt::cli::run_train;
  if (name == "generate") return tt::cli::run_generate;
  if (name == "points") return tt::cli::run_points;
  if (name == "supervise") return tt::cli::run_supervise;
  if (name == "inspect") return tt::cli::run_inspect;
  if (name == "convert") return tt::cli::run_convert;
  if (name == "vector") return tt::cli::run_vector;
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
  if (command == "replay" || command == "runs") return become_hub(argv + 1);
  if (command == "export") return become_export(argv + 2);
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
