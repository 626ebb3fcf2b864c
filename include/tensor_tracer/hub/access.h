#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"

/// From where the hub can be reached and what it asks for: docs/protocol.md, "Connecting".
namespace tt::hub {

struct Access {
  /// An address to listen on besides the loopback ones, which it always listens on; empty: none.
  std::string bind = {};
  bool viewers_need_token = true;         // workers always do
  std::vector<std::string> hosts = {};    // what Host may be besides localhost, 127.0.0.1 and [::1]
  std::vector<std::string> origins = {};  // what Origin may be besides http:// and Host
};

/// A name or an address, with or without a port: it has no space or line end, so that it can be put
/// into a header.
bool is_host(std::string_view text);

/// True for "", localhost, ::1 and the IPv4 addresses 127.x.y.z.
bool is_loopback(std::string_view address);

/// The error names the flag: an invalid address or origin, or no token where other machines
/// can connect. Thread: any.
base::Status check(const Access& access);

/// `access.hosts` and the names under which its address is reached; `host` is this machine's.
std::vector<std::string> allowed_hosts(const Access& access, const std::string& host);

/// The addresses to listen on, of which those with a colon may be missing on this machine.
/// REQUIRES: check(access).ok().
std::vector<std::string> listen_addresses(const std::string& bind);

}  // namespace tt::hub
