#include "tests/bench/plain_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace tt::bench {
namespace {

constexpr std::uint8_t kFinal = 0x80;
constexpr std::uint8_t kMasked = 0x80;

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

std::string frame_header(std::uint8_t opcode, std::uint64_t length, std::uint8_t masked) {
  std::string header(1, static_cast<char>(kFinal | opcode));
  const int wide = length < 126 ? 0 : length < 65536 ? 2 : 8;
  const auto first = wide == 0 ? static_cast<std::uint8_t>(length) : wide == 2 ? 126 : 127;
  header += static_cast<char>(masked | first);
  for (int byte = wide - 1; byte >= 0; --byte) header += static_cast<char>(length >> (8 * byte));
  return header;
}

}  // namespace

base::ScopedFd connect_to(int port) {
  base::ScopedFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  const int yes = 1;
  if (!fd ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) != 0)
    fail("port " + std::to_string(port) + " cannot be connected to");
  return fd;
}

Listener listen_on_any() {
  Listener listener{.fd = base::ScopedFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (!listener.fd || ::bind(listener.fd.get(), any, size) != 0 ||
      ::listen(listener.fd.get(), SOMAXCONN) != 0 ||
      ::getsockname(listener.fd.get(), any, &size) != 0)
    fail("no port can be listened on");
  listener.port = ntohs(address.sin_port);
  return listener;
}

std::string upgrade(int fd, const Endpoint& endpoint) {
  std::string request = "GET " + endpoint.path +
                        " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(endpoint.port) +
                        "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        "Sec-WebSocket-Version: 13\r\n"
                        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
  if (!endpoint.token.empty()) request += "Authorization: Bearer " + endpoint.token + "\r\n";
  send_all(fd, request + "\r\n");
  std::string answer;
  std::array<char, 4096> buffer{};
  std::size_t end = std::string::npos;
  while (end == std::string::npos) {
    const ssize_t count = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (count <= 0) throw std::runtime_error("the hub ended the connection in the handshake");
    answer.append(buffer.data(), static_cast<std::size_t>(count));
    end = answer.find("\r\n\r\n");
  }
  if (!answer.starts_with("HTTP/1.1 101 "))
    throw std::runtime_error("the hub refused: " + answer.substr(0, answer.find("\r\n")));
  return answer.substr(end + 4);
}

void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0) fail("the hub takes no more");
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

std::string client_frame_header(std::uint8_t opcode, std::uint64_t length) {
  return frame_header(opcode, length, kMasked).append(kMask.data(), kMask.size());
}

std::string server_frame_header(std::uint8_t opcode, std::uint64_t length) {
  return frame_header(opcode, length, 0);
}

void mask(char* bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<char>(bytes[i] ^ kMask[i % kMask.size()]);
}

void send_text(int fd, std::string text) {
  mask(text.data(), text.size());
  send_all(fd, client_frame_header(kTextOpcode, text.size()) + text);
}

}  // namespace tt::bench
