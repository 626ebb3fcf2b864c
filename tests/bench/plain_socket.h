#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tensor_tracer/base/scoped_fd.h"

/// Blocking sockets and just as much of WebSocket as the load benchmark needs. Errors are thrown as
/// std::runtime_error: the benchmark ends with them.
namespace tt::bench {

/// Where a client of a hub connects to.
struct Endpoint {
  int port = 0;
  std::string path = "/ws";
  std::string token;  // empty: the hub wants neither token nor hello
};

inline constexpr std::uint8_t kTextOpcode = 0x1;
inline constexpr std::uint8_t kBinaryOpcode = 0x2;
inline constexpr std::uint8_t kCloseOpcode = 0x8;

/// Every client's mask; RFC 6455 wants an unpredictable one, which nobody on loopback needs.
inline constexpr std::array<char, 4> kMask = {0x12, 0x34, 0x56, 0x78};

base::ScopedFd connect_to(int port);

/// Listens on a free port of 127.0.0.1.
struct Listener {
  base::ScopedFd fd;
  int port = 0;
};
Listener listen_on_any();

/// The WebSocket handshake. Returns what followed the hub's answer.
std::string upgrade(int fd, const Endpoint& endpoint);

void send_all(int fd, std::string_view bytes);

/// The header of a final frame of a client: opcode, length and kMask.
std::string client_frame_header(std::uint8_t opcode, std::uint64_t length);
/// The same of a server, without a mask.
std::string server_frame_header(std::uint8_t opcode, std::uint64_t length);
/// Masks bytes that begin at a multiple of 4 in their frame's payload.
void mask(char* bytes, std::size_t count);

void send_text(int fd, std::string text);

}  // namespace tt::bench
