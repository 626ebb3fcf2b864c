#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tt::protocol {

/// CRC-32C (Castagnoli, reflected, as in iSCSI) of the bytes. Uses the CPU's instruction if the CPU
/// has one. crc32c("123456789") is 0xE3069283. `before`: the checksum of the bytes before these, so
/// that crc32c("789", crc32c("123456")) is the same.
/// Thread: any.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

/// The same checksum from tables, on any CPU. crc32c() uses it if the CPU has no such instruction.
/// Thread: any.
std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace tt::protocol
