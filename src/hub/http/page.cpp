#include "src/hub/http/page.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <utility>

#include "tensor_tracer/base/private_file.h"

namespace tt::hub {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{32} << 20U;

constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kContentTypes = {
    {{".html", "text/html; charset=utf-8"},
     {".js", "text/javascript; charset=utf-8"},
     {".mjs", "text/javascript; charset=utf-8"},
     {".css", "text/css; charset=utf-8"},
     {".json", "application/json"},
     {".map", "application/json"},
     {".svg", "image/svg+xml"},
     {".png", "image/png"},
     {".ico", "image/x-icon"},
     {".woff2", "font/woff2"},
     {".wasm", "application/wasm"},
     {".txt", "text/plain; charset=utf-8"},
     {".webmanifest", "application/manifest+json"}}};

// True if every segment has only letters, digits, '-', '_' and '.', and does not begin with '.'. So
// the path has no "..", no hidden file and no encoded character.
bool is_plain(std::string_view path) {
  bool at_start = true;
  for (const char c : path) {
    if (at_start && (c == '.' || c == '/')) return false;
    at_start = c == '/';
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' ||
                       c == '.' || c == '/';
    if (!plain) return false;
  }
  return !at_start;
}

std::string_view content_type(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  const std::string_view ending = dot == std::string_view::npos ? "" : path.substr(dot);
  const auto* const known = std::find_if(kContentTypes.begin(), kContentTypes.end(),
                                         [&](const auto& type) { return type.first == ending; });
  return known == kContentTypes.end() ? "application/octet-stream" : known->second;
}

}  // namespace

std::optional<PageFile> load_page_file(const std::string& page_dir, std::string_view path) {
  const std::string_view name =
      path == "/" ? "index.html" : path.substr(std::min<std::size_t>(1, path.size()));
  if (page_dir.empty() || path.substr(0, 1) != "/" || !is_plain(name)) return std::nullopt;
  const std::string file = page_dir + "/" + std::string(name);
  std::error_code failure;
  if (!std::filesystem::is_regular_file(file, failure)) return std::nullopt;
  base::Result<std::string> content = base::read_small_file(file, kMaxFileBytes);
  if (!content) return std::nullopt;
  return PageFile{content_type(name), std::move(content).value()};
}

}  // namespace tt::hub
