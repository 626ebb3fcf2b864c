// Runs every file of a corpus through one fuzz target:
//
//     record_replay FOLDER|FILE…
//
// Ends with 1 where there was no input or one took too long; what a target finds ends the process
// by itself.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace {

namespace fs = std::filesystem;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kLongest{10};

std::vector<fs::path> inputs_of(const fs::path& place) {
  if (!fs::is_directory(place)) return {place};
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(place))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// False if it took too long.
bool replay(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  // A buffer of exactly this size: the address sanitizer sees each byte read beyond it.
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::printf("%s, %zu bytes\n", path.filename().c_str(), bytes.size());
  std::fflush(stdout);  // the last line names the input that ended the process
  const auto start = std::chrono::steady_clock::now();
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  const Seconds taken = std::chrono::steady_clock::now() - start;
  if (taken > kLongest)
    std::printf("took %.1f s, more than %.0f s\n", taken.count(), kLongest.count());
  return taken <= kLongest;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t count = 0;
  bool well = true;
  for (int word = 1; word < argc; ++word) {
    for (const fs::path& path : inputs_of(argv[word])) {
      well = replay(path) && well;
      ++count;
    }
  }
  std::printf("%zu inputs\n", count);
  return well && count > 0 ? 0 : 1;
}
