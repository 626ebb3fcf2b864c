#include "tensor_tracer/checkpoint/manifest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <limits>
#include <span>
#include <system_error>
#include <utility>

#include "src/checkpoint/durable_file.h"
#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/base/scoped_fd.h"
#include "tensor_tracer/protocol/crc32c.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kManifest = "manifest.json";
constexpr const char* kChecksum = "manifest.crc32c";
constexpr const char* kFormat = "tensor-tracer checkpoint";
constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kMaxManifestBytes = std::size_t{64} << 20U;
constexpr std::size_t kMaxManifestDepth = 200;  // a program of a graph lies in the facts
constexpr auto kMaxStep = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
constexpr std::size_t kBlockBytes = std::size_t{1} << 20U;

std::string checksum_of(std::string_view text) {
  return fmt::format("{:08x}\n", protocol::crc32c(std::as_bytes(std::span(text))));
}

json to_json(const Manifest& manifest) {
  json files = json::array();
  for (const FileFacts& file : manifest.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"crc32c", file.crc32c}});
  json form = {{"format", kFormat},     {"version", kVersion},       {"step", manifest.step},
               {"time", manifest.time}, {"files", std::move(files)}, {"facts", manifest.facts}};
  if (manifest.valid_loss) form["valid_loss"] = *manifest.valid_loss;
  return form;
}

base::Result<std::string> read_checked(const std::string& folder) {
  const std::string path = folder + "/" + kManifest;
  auto text = base::read_small_file(path, kMaxManifestBytes);
  if (!text && text.error().code == "not_found")
    return base::Error{"not_found", "is missing, so its folder is not a checkpoint", path,
                       "give the folder of --save"};
  if (!text) return damaged_checkpoint(path, text.error().message);
  const auto checksum = base::read_small_file(folder + "/" + kChecksum);
  if (!checksum) return damaged_checkpoint(folder + "/" + kChecksum, checksum.error().message);
  if (checksum.value() != checksum_of(text.value()))
    return damaged_checkpoint(path, "its checksum is wrong");
  return text;
}

// Nothing: a member is missing, of another type or out of range, or the name is not in the folder.
std::optional<FileFacts> read_file_facts(const json& file) {
  const std::string name = protocol::text_of(file, "name");
  const auto bytes = protocol::natural(file, "bytes");
  const auto crc32c = protocol::natural(file, "crc32c");
  const bool is_name = !name.empty() &&
                       name.find_first_of(std::string_view("/\0", 2)) == name.npos && name != "." &&
                       name != "..";
  if (!is_name || !bytes || !crc32c || *crc32c > std::numeric_limits<std::uint32_t>::max())
    return std::nullopt;
  return FileFacts{name, *bytes, static_cast<std::uint32_t>(*crc32c)};
}

// Reads the file: a read error of the disk is an error here, and would end the process in a
// mapping.
base::Result<FileFacts> checksum_of_file(const std::string& path) {
  const auto failed = [] {
    return base::Error{"io_error", "cannot be read: " + std::generic_category().message(errno)};
  };
  const base::ScopedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return failed();
  FileFacts facts;
  std::vector<std::byte> block(kBlockBytes);
  while (true) {
    const ssize_t size = ::read(fd.get(), block.data(), block.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return failed();
    if (size == 0) return facts;
    const auto bytes = static_cast<std::size_t>(size);
    facts.crc32c = protocol::crc32c(std::span(block).first(bytes), facts.crc32c);
    facts.bytes += bytes;
  }
}

// Of the save; of a damaged checkpoint: of the last change of its folder. A copy has another time
// of change.
double time_of(const std::string& checkpoint) {
  const auto manifest = read_manifest(checkpoint);
  if (manifest) return manifest.value().time;
  struct stat facts {};
  if (::stat(checkpoint.c_str(), &facts) != 0) return 0;
  const timespec& time = facts.st_mtim;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

base::Error damaged_checkpoint(const std::string& path, const std::string& message) {
  return {"damaged", message, path, "load another checkpoint"};
}

std::string to_text(const Manifest& manifest) {
  return to_json(manifest).dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

// A file with its checksum is intact, so a wrong member is the work of another program.
base::Result<Manifest> parse_manifest(std::string_view text, const std::string& path) {
  const auto parsed =
      protocol::parse_json(text, {.bytes = kMaxManifestBytes, .depth = kMaxManifestDepth});
  if (!parsed) return damaged_checkpoint(path, "it is not JSON: " + parsed.error().message);
  const json& form = parsed.value();
  if (protocol::text_of(form, "format") != kFormat)
    return damaged_checkpoint(path, "it is not a manifest of a checkpoint");
  if (protocol::natural(form, "version") != kVersion)
    return damaged_checkpoint(path, "its version is not 1: a newer program wrote it");
  const auto step = protocol::natural(form, "step");
  if (!step || *step > kMaxStep) return damaged_checkpoint(path, "its step is wrong");
  const json& time = protocol::member(form, "time");
  const json& files = protocol::member(form, "files");
  if (!time.is_number() || !files.is_array() || !form.contains("facts"))
    return damaged_checkpoint(path, "it has no time, no files or no facts");
  Manifest manifest{static_cast<std::int64_t>(*step), time.get<double>(), {}, form["facts"]};
  if (const json& loss = protocol::member(form, "valid_loss"); loss.is_number())
    manifest.valid_loss = loss.get<double>();
  for (const json& file : files) {
    auto facts = read_file_facts(file);
    if (!facts) return damaged_checkpoint(path, "a file of its list is wrong");
    manifest.files.push_back(std::move(*facts));
  }
  return manifest;
}

base::Status write_manifest(const std::string& folder, const Manifest& manifest) {
  const std::string text = to_text(manifest);
  if (auto status = write_durable(folder + "/" + kManifest, text); !status) return status;
  return write_durable(folder + "/" + kChecksum, checksum_of(text));
}

base::Result<Manifest> read_manifest(const std::string& folder) {
  const auto text = read_checked(folder);
  if (!text) return text.error();
  return parse_manifest(text.value(), folder + "/" + kManifest);
}

base::Status verify_files(const std::string& folder, const Manifest& manifest) {
  for (const FileFacts& file : manifest.files) {
    const std::string path = folder + "/" + file.name;
    const auto found = checksum_of_file(path);
    if (!found) return damaged_checkpoint(path, found.error().message);
    if (found.value().bytes != file.bytes) {
      return damaged_checkpoint(path, fmt::format("has {} bytes, not the {} that were saved",
                                                  found.value().bytes, file.bytes));
    }
    if (found.value().crc32c != file.crc32c)
      return damaged_checkpoint(path, "its checksum is wrong");
  }
  return {};
}

std::string checkpoint_name(std::int64_t step) { return fmt::format("step_{:08d}", step); }

std::vector<std::string> find_checkpoints(const std::string& folder) {
  std::error_code error;
  if (fs::exists(fs::path(folder) / kManifest, error)) return {folder};
  std::vector<std::pair<double, std::string>> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string path = entry.path().string();
    if (entry.path().filename().string().starts_with("step_") && entry.is_directory(error))
      found.emplace_back(time_of(path), path);
  }
  std::ranges::sort(found, std::greater());
  std::vector<std::string> paths;
  for (auto& [time, path] : found) paths.push_back(std::move(path));
  return paths;
}

}  // namespace tt::checkpoint
