#include "src/hub/legacy/numbers.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>

#include "tensor_tracer/base/check.h"
#include "tensor_tracer/protocol/record_numbers.h"

namespace tt::hub::dialect {
namespace {

using protocol::Dtype;

constexpr std::size_t kMaxDigits = 32;     // the most in one number, with sign, point and exponent
constexpr std::size_t kLikelyDigits = 24;  // includes the comma

template <typename Number>
void append_number(std::string& out, Number number) {
  char digits[kMaxDigits];
  const char* const end = std::to_chars(digits, digits + kMaxDigits, number).ptr;
  const std::string_view text(digits, static_cast<std::size_t>(end - digits));
  out += text;
  if (std::is_floating_point_v<Number> && text.find_first_of(".e") == std::string_view::npos)
    out += ".0";
}

void append_real(std::string& out, double number) {
  if (std::isfinite(number))
    append_number(out, number);
  else
    out += "null";
}

template <typename Stored, typename Append>
void append_all(std::string& out, std::span<const std::byte> payload, Append append) {
  const std::size_t count = payload.size() / sizeof(Stored);
  out.reserve(out.size() + count * kLikelyDigits);
  for (std::size_t i = 0; i < count; ++i) {
    Stored stored{};
    std::memcpy(&stored, payload.data() + i * sizeof(Stored), sizeof(Stored));
    if (i > 0) out += ',';
    append(stored);
  }
}

// The offset and the scale of every line stand before all codes.
void append_u8(std::string& out, const protocol::RecordView& record) {
  const protocol::RecordHeader& header = record.header;
  const std::size_t columns = header.ndim == 0 ? 1 : header.shape[header.ndim - 1];
  const std::size_t lines =
      columns == 0 ? 0 : record.payload.size() / (columns + protocol::kU8LineBytes);
  const std::span<const std::byte> codes = record.payload.subspan(lines * protocol::kU8LineBytes);
  std::size_t at = 0;
  float line[2] = {};
  append_all<std::uint8_t>(out, codes, [&](std::uint8_t code) {
    if (at % columns == 0)
      std::memcpy(line, record.payload.data() + at / columns * protocol::kU8LineBytes, sizeof line);
    ++at;
    append_real(out, code > protocol::kU8Largest ? std::numeric_limits<double>::quiet_NaN()
                                                 : double{line[0]} + code * double{line[1]});
  });
}

}  // namespace

std::uint64_t count_numbers(const protocol::RecordHeader& header) {
  const std::size_t element = protocol::dtype_bytes(header.dtype);
  // The payload is at least as long as its numbers, so the product cannot overflow.
  std::uint64_t count = element == 0 ? std::numeric_limits<std::uint64_t>::max() : 1;
  for (std::size_t dim = 0; element != 0 && dim < header.ndim; ++dim) count *= header.shape[dim];
  return count;
}

void append_numbers(std::string& out, const protocol::RecordView& record) {
  switch (record.header.dtype) {
    case Dtype::kF64:
      return append_all<double>(out, record.payload, [&](double x) { append_real(out, x); });
    case Dtype::kF32:
      return append_all<float>(out, record.payload, [&](float x) { append_real(out, x); });
    case Dtype::kF16:
      return append_all<std::uint16_t>(out, record.payload, [&](std::uint16_t bits) {
        append_real(out, protocol::half_value(bits));
      });
    case Dtype::kBf16:
      return append_all<std::uint16_t>(out, record.payload, [&](std::uint16_t bits) {
        append_real(out, protocol::bf16_value(bits));
      });
    case Dtype::kI32:
      return append_all<std::int32_t>(out, record.payload,
                                      [&](std::int32_t x) { append_number(out, x); });
    case Dtype::kI64:
      return append_all<std::int64_t>(out, record.payload,
                                      [&](std::int64_t x) { append_number(out, x); });
    case Dtype::kU8:
      return append_u8(out, record);
  }
  TT_CHECK(false, "dtype of an update");
}

}  // namespace tt::hub::dialect
