#include <cstring>
#include <optional>

#include "src/checkpoint/tensor_bytes.h"

namespace tt::checkpoint {
namespace {

constexpr std::size_t kMaxNpyHeaderBytes = 64 << 10;

// Reads a Python dict in NumPy's notation, from left to right.
class Header {
 public:
  explicit Header(std::string_view text) : text_(text) {}

  bool takes(std::string_view word) {
    skip_spaces();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string_view> quoted() {
    if (!takes("'")) return std::nullopt;
    const std::size_t end = text_.find('\'');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view word = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return word;
  }
  std::optional<std::int64_t> number() {
    skip_spaces();
    std::int64_t value = 0;
    std::size_t digits = 0;
    while (digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9') {
      if (digits == 18) return std::nullopt;
      value = value * 10 + (text_[digits++] - '0');
    }
    text_.remove_prefix(digits);
    return digits > 0 ? std::optional(value) : std::nullopt;
  }
  bool is_done() {
    skip_spaces();
    return text_.empty();
  }

 private:
  void skip_spaces() {
    const std::size_t begin = text_.find_first_not_of(" \n");
    text_.remove_prefix(begin == std::string_view::npos ? text_.size() : begin);
  }
  std::string_view text_;
};

// Reads "(3, 4)", "(3,)" or "()".
std::optional<std::vector<std::int64_t>> read_shape(Header& header) {
  std::vector<std::int64_t> shape;
  if (!header.takes("(")) return std::nullopt;
  while (!header.takes(")")) {
    const auto extent = header.number();
    if (!extent) return std::nullopt;
    shape.push_back(*extent);
    if (header.takes(",")) continue;
    if (!header.takes(")")) return std::nullopt;
    break;
  }
  return shape;
}

std::optional<Number> npy_number(std::string_view dtype) {
  if (dtype == "<f8") return Number::kF64;
  if (dtype == "<f4") return Number::kF32;
  if (dtype == "<f2") return Number::kF16;
  return std::nullopt;
}

base::Result<TensorBytes> read_header(std::string_view text) {
  const base::Error unreadable = bad_tensor("its header cannot be read");
  Header header(text);
  if (!header.takes("{") || !header.takes("'descr'") || !header.takes(":")) return unreadable;
  const auto dtype = header.quoted();
  if (!dtype || !header.takes(",") || !header.takes("'fortran_order'") || !header.takes(":"))
    return unreadable;
  const bool is_fortran = header.takes("True");
  if (!is_fortran && !header.takes("False")) return unreadable;
  if (!header.takes(",") || !header.takes("'shape'") || !header.takes(":")) return unreadable;
  auto shape = read_shape(header);
  header.takes(",");
  if (!shape || !header.takes("}") || !header.is_done()) return unreadable;
  const auto number = npy_number(*dtype);
  if (!number || is_fortran) {
    return bad_tensor("it is of dtype " + std::string(dtype->substr(0, 64)) +
                      (is_fortran ? " in Fortran order" : ""));
  }
  return TensorBytes{*number, std::move(*shape), {}, 0, 0, 0};
}

}  // namespace

// The file begins with magic, version, length of the header, and the header.
base::Result<TensorBytes> find_in_npy(std::string_view file) {
  if (file.size() <= 12 || !file.starts_with("\x93NUMPY"))
    return bad_tensor("it is not an .npy file");
  const std::size_t length_bytes = file[6] == 1 ? 2 : 4;
  std::uint32_t length = 0;
  std::memcpy(&length, file.data() + 8, length_bytes);
  const std::size_t begin = 8 + length_bytes + length;
  if (begin > file.size()) return bad_tensor("its header is cut off");
  if (length > kMaxNpyHeaderBytes) return bad_tensor("its header is longer than 64 KiB");
  auto found = read_header(file.substr(8 + length_bytes, length));
  if (!found) return found;
  found.value().begin = begin;
  found.value().size = file.size() - begin;
  std::uint64_t wanted = bytes_of(found.value().number);
  for (const std::int64_t extent : found.value().shape) {
    if (wanted > file.size()) break;
    wanted *= static_cast<std::uint64_t>(extent);
  }
  if (wanted != found.value().size) return bad_tensor("its shape does not fit its size");
  return check_tensor(std::move(found).value(), file.size());
}

}  // namespace tt::checkpoint
