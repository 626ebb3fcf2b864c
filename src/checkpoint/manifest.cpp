#include "tensor_tracer/checkpoint/manifest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <span>
#include <system_error>

#include "src/checkpoint/durable_file.h"
#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/base/scoped_fd.h"
#include "tensor_tracer/protocol/crc32c.h"
#include "tensor_tracer/protocol/json_members.h"

namespace tt::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kManifest = "manifest.json";
constexpr const char* kChecksum = "manifest.crc32c";
constexpr const char* kFormat = "tensor-tracer checkpoint";
constexpr int kVersion = 1;
constexpr std::size_t kMaxManifestBytes = std::size_t{64} << 20U;
constexpr std::size_t kBlockBytes = std::size_t{1} << 20U;

std::string checksum_of(std::string_view text) {
  return fmt::format("{:08x}\n", protocol::crc32c(std::as_bytes(std::span(text))));
}

base::Error damaged(const std::string& path, const std::string& message) {
  return {"damaged", message, path, "load another checkpoint"};
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
  if (!text) return damaged(path, text.error().message);
  const auto checksum = base::read_small_file(folder + "/" + kChecksum);
  if (!checksum) return damaged(folder + "/" + kChecksum, checksum.error().message);
  if (checksum.value() != checksum_of(text.value())) return damaged(path, "its checksum is wrong");
  return text;
}

// The file is intact, so a wrong member is the work of another program.
base::Result<Manifest> parse(const std::string& path, const std::string& text) {
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object() || parsed.value("format", json()) != kFormat)
    return damaged(path, "it is not a manifest of a checkpoint");
  if (parsed.value("version", json()) != kVersion)
    return damaged(path, "its version is not 1: a newer program wrote it");
  try {
    Manifest manifest{parsed.at("step").get<std::int64_t>(),
                      parsed.at("time").get<double>(),
                      {},
                      parsed.at("facts")};
    if (manifest.step < 0) return damaged(path, "its step is below 0");
    if (parsed.contains("valid_loss")) manifest.valid_loss = parsed["valid_loss"].get<double>();
    for (const json& file : parsed.at("files"))
      manifest.files.push_back({file.at("name"), file.at("bytes"), file.at("crc32c")});
    const auto is_path = [](const FileFacts& file) {
      return fs::path(file.name).filename() != file.name || file.name.empty();
    };
    if (std::ranges::any_of(manifest.files, is_path))
      return damaged(path, "it names a file outside of its folder");
    return manifest;
  } catch (const json::exception& error) {
    return damaged(path, error.what());
  }
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

base::Status write_manifest(const std::string& folder, const Manifest& manifest) {
  const std::string text =
      to_json(manifest).dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  if (auto status = write_durable(folder + "/" + kManifest, text); !status) return status;
  return write_durable(folder + "/" + kChecksum, checksum_of(text));
}

base::Result<Manifest> read_manifest(const std::string& folder) {
  const auto text = read_checked(folder);
  if (!text) return text.error();
  return parse(folder + "/" + kManifest, text.value());
}

base::Status verify_files(const std::string& folder, const Manifest& manifest) {
  for (const FileFacts& file : manifest.files) {
    const std::string path = folder + "/" + file.name;
    const auto found = checksum_of_file(path);
    if (!found) return damaged(path, found.error().message);
    if (found.value().bytes != file.bytes) {
      return damaged(path, fmt::format("has {} bytes, not the {} that were saved",
                                       found.value().bytes, file.bytes));
    }
    if (found.value().crc32c != file.crc32c) return damaged(path, "its checksum is wrong");
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
