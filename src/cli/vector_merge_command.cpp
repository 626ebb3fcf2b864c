#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "src/cli/exit_code.h"
#include "src/cli/help_text.h"
#include "src/cli/output_folder.h"
#include "src/cli/parse.h"
#include "src/cli/vector_commands.h"
#include "src/cli/vector_inputs.h"
#include "tensor_tracer/tokenize/utf8.h"

namespace tt::cli {
namespace {

struct MergeOptions {
  std::vector<std::string> files;  // each perhaps with a name: NAME=FILE
  std::string out;
  bool force = false;
};

// The name in NAME=FILE, or an empty text if only a file is given. A path may have "=" in it, but
// only behind a slash.
std::string name_in(const std::string& argument) {
  const std::size_t end = argument.find('=');
  return end == std::string::npos || argument.substr(0, end).find('/') != std::string::npos
             ? ""
             : argument.substr(0, end);
}

base::Status check_out(const MergeOptions& options) {
  if (!options.out.ends_with(".safetensors")) {
    return base::invalid_argument("--out", "\"" + options.out + "\" cannot hold several vectors",
                                  "give a name that ends with .safetensors");
  }
  std::error_code error;
  if (std::filesystem::exists(options.out, error) && !options.force)
    return base::invalid_argument("--out", "\"" + options.out + "\" exists", "--force replaces it");
  return prepare_parent("--out", options.out);
}

base::Result<std::vector<GivenVector>> read_argument(const std::string& argument) {
  const std::string name = name_in(argument);
  const std::string path = name.empty() ? argument : argument.substr(name.size() + 1);
  auto read = read_given_vectors({path});
  if (!read || name.empty()) return read;
  if (read.value().size() > 1) {
    return base::invalid_argument(argument, "the file holds several vectors, which have names",
                                  "leave \"" + name + "=\" out");
  }
  read.value().front().vector.name = name;
  return read;
}

base::Status check_names(const std::vector<GivenVector>& vectors) {
  for (auto one = vectors.begin(); one != vectors.end(); ++one) {
    const std::string& name = one->vector.name;
    if (name == "__metadata__" || tokenize::replace_invalid(name) != name) {
      return base::invalid_argument(one->label, "has a name that a .safetensors file cannot hold",
                                    "give another one: NAME=FILE");
    }
    const auto other = std::find_if(vectors.begin(), one, [&](const GivenVector& before) {
      return before.vector.name == name;
    });
    if (other == one) continue;
    return base::invalid_argument(one->label,
                                  fmt::format("is named \"{}\", as is {}", name, other->label),
                                  "give one of them another name: NAME=FILE");
  }
  return {};
}

base::Status merge_files(const MergeOptions& options) {
  if (auto status = check_out(options); !status) return status;
  std::vector<GivenVector> vectors;
  for (const std::string& argument : options.files) {
    auto read = read_argument(argument);
    if (!read) return read.error();
    for (GivenVector& one : read.value()) vectors.push_back(std::move(one));
  }
  auto status = check_names(vectors);
  if (status) status = check_same_shape(vectors);
  if (!status) return status;
  std::vector<checkpoint::StoredVector> stored;
  for (const GivenVector& one : vectors) stored.push_back(one.vector);
  if (status = checkpoint::write_vectors(options.out, stored); !status) return status;
  fmt::print("{}: {} vectors {}\n", options.out, stored.size(), shape_text(stored.front().rows));
  return {};
}

}  // namespace

int run_vector_merge(int argc, const char* const* argv) {
  MergeOptions options;
  CLI::App app("Write the vectors of several files into one file (docs/vectors.md).",
               "tensor-tracer vector merge");
  set_help_text(app);
  app.add_option("files", options.files,
                 ".pt, .safetensors or .npy files of one shape; NAME=FILE names the vector, which "
                 "is named as the file otherwise")
      ->required();
  app.add_option("--out", options.out, "the file, which ends with .safetensors")->required();
  app.add_flag("--force", options.force, "replace the file that is there");
  auto parsed = parse(app, argc, argv);
  if (!parsed) return fail(parsed.error());
  if (!parsed.value().empty()) {
    fmt::print("{}", parsed.value());
    return kExitDone;
  }
  const auto status = merge_files(options);
  return status ? kExitDone : report(status.error());
}

}  // namespace tt::cli
