#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tt::hub {

struct PageFile {
  std::string_view content_type;
  std::string content;
};

/// A file of the page by its request path ("/" is index.html). Nothing if there is no such file, or
/// if the path has a part that is not a plain name. Thread: any.
std::optional<PageFile> load_page_file(const std::string& page_dir, std::string_view path);

}  // namespace tt::hub
