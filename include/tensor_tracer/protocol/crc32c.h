#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tt::protocol {

/// CRC-32C (Castagnoli, reflected, as in iSCSI) of the bytes, by the CPU's instruction where it has
/// one. crc32c("123456789") is 0xE3069283.
/// Thread: any.
std::uint32_t crc32c(std::span<const std::byte> bytes);

/// The same by tables, on any CPU; what crc32c() falls back to.
/// Thread: any.
std::uint32_t crc32c_portable(std::span<const std::byte> bytes);

}  // namespace tt::protocol
