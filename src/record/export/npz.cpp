#include <minizip/zip.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "src/record/export/arrays.h"
#include "src/record/export/exporter.h"
#include "src/record/export/output_file.h"
#include "tensor_tracer/base/check.h"

// npz := a ZIP archive (64-bit, stored) with one member <name>.npy for each array
// npy := magic "\x93NUMPY" 1 0, length of what follows (u16), a Python dict as text, spaces so that
//        the data begins at a multiple of 64, "\n", data; NumPy's numpy/lib/format.py, version 1.0
namespace tt::record {
namespace {

using protocol::Dtype;

const char* descriptor(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
      return "<f8";
    case Dtype::kF32:
      return "<f4";
    case Dtype::kF16:
      return "<f2";
    case Dtype::kI32:
      return "<i4";
    case Dtype::kI64:
      return "<i8";
    case Dtype::kU8:
      return "|u1";
    case Dtype::kBf16:
      break;
  }
  throw std::logic_error("an array of a dtype that NPY does not have");
}

std::string npy_header(const Array& array) {
  std::string shape;
  for (const std::uint64_t extent : array.shape) {
    shape += std::to_string(extent) + ", ";
  }
  std::string text = std::string("{'descr': '") + descriptor(array.dtype) +
                     "', 'fortran_order': False, 'shape': (" + shape + "), }";
  constexpr std::size_t kPreamble = 10;
  constexpr std::size_t kAlignment = 64;
  const std::size_t total =
      (kPreamble + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  text.resize(total - kPreamble - 1, ' ');
  text += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(text.size() & 0xFFU);
  out += static_cast<char>(text.size() >> 8U);
  return out + text;
}

/// One archive. Every call throws Failure when the disk refuses. Thread: one.
class ZipFile {
 public:
  explicit ZipFile(const std::string& path)
      : file_(path), zip_(zipOpen64(file_.partial().c_str(), APPEND_STATUS_CREATE)) {
    require(zip_ != nullptr);
  }
  ZipFile(const ZipFile&) = delete;
  ZipFile& operator=(const ZipFile&) = delete;
  ~ZipFile() {
    if (zip_ != nullptr) {
      zipClose(zip_, nullptr);
    }
  }

  void open_member(const std::string& name) {
    constexpr uLong kUtf8Name = 1U << 11U;
    constexpr int kStore = 0;
    zip_fileinfo info{};
    info.tmz_date = {
        .tm_sec = 0, .tm_min = 0, .tm_hour = 0, .tm_mday = 1, .tm_mon = 0, .tm_year = 1980};
    require(zipOpenNewFileInZip4_64(zip_, name.c_str(), &info, nullptr, 0, nullptr, 0, nullptr,
                                    kStore, 0, 0, -MAX_WBITS, DEF_MEM_LEVEL, Z_DEFAULT_STRATEGY,
                                    nullptr, 0, 0, kUtf8Name, /*zip64=*/1) == ZIP_OK);
  }
  void write(std::span<const std::byte> bytes) {
    constexpr std::size_t kAtOnce = std::size_t{1} << 30U;
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min(bytes.size(), kAtOnce));
      require(zipWriteInFileInZip(zip_, piece.data(), static_cast<unsigned>(piece.size())) ==
              ZIP_OK);
      bytes = bytes.subspan(piece.size());
    }
  }
  void close_member() { require(zipCloseFileInZip(zip_) == ZIP_OK); }
  void commit() {
    require(zipClose(std::exchange(zip_, nullptr), nullptr) == ZIP_OK);
    file_.commit();
  }

 private:
  void require(bool good) const {
    if (!good) {
      throw cannot_write(file_.path());
    }
  }

  PartialFile file_;
  zipFile zip_;
};

}  // namespace

void write_npz(const Source& source, const std::string& path, bool raw) {
  ZipFile zip(path);
  for (const Array& array : make_arrays(source, {.bf16 = false, .raw = raw})) {
    zip.open_member(array.name + ".npy");
    const std::string header = npy_header(array);
    zip.write(std::as_bytes(std::span(header)));
    std::uint64_t written = 0;
    array.write([&](std::span<const std::byte> bytes) {
      written += bytes.size();
      zip.write(bytes);
    });
    TT_CHECK_EQ(written, bytes_of(array));
    zip.close_member();
  }
  zip.commit();
}

}  // namespace tt::record
