#include "src/cli/run_excess.h"

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <filesystem>

#include "tensor_tracer/base/size_text.h"
#include "tensor_tracer/record/run_catalog.h"

namespace tt::cli {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{10} << 30U;
constexpr std::size_t kMaxNamed = 5;

std::string folder_of(const std::string& run_dir) {
  if (run_dir.empty()) return std::filesystem::absolute("runs").string();
  return std::filesystem::absolute(run_dir).parent_path().string();
}

}  // namespace

// Nothing is removed without a command.
std::string name_excess(const std::string& run_dir) try {
  const std::string folder = folder_of(run_dir);
  const record::Excess excess = record::find_excess(folder, kMaxBytes, kMaxNamed);
  if (excess.bytes == 0) return "";
  std::string text = fmt::format("the runs in {} have {}", folder, base::size_text(excess.bytes));
  std::string ids;
  for (const record::CatalogRun& run : excess.runs) {
    text += fmt::format("{} {} ({}, {})", ids.empty() ? "; the largest that are not kept:" : ",",
                        run.id, run.name, base::size_text(run.bytes));
    ids += " " + run.id;
  }
  if (ids.empty()) return text;
  return text +
         fmt::format("; to remove them: tensor-tracer runs --runs-dir {} remove{}", folder, ids);
} catch (const std::exception&) {
  return "";  // the folder cannot be read
}

}  // namespace tt::cli
