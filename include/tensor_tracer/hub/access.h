#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"

/// The addresses of the hub, and the rights that it checks: docs/protocol.md, "Connecting".
namespace tt::hub {

struct Access {
  /// An address to listen on in addition to the loopback addresses; the hub always listens on
  /// these. Empty: none.
  std::string bind = {};
  bool viewers_need_token = true;         // workers always need one
  std::vector<std::string> hosts = {};    // allowed in Host, with localhost, 127.0.0.1 and [::1]
  std::vector<std::string> origins = {};  // allowed in Origin, with http:// and Host
};

/// True for a name or an address, with or without a port. Such a text has no space or line end, so
/// it can be put into a header.
bool is_host(std::string_view text);

/// True for "", localhost, ::1 and the IPv4 addresses 127.x.y.z.
bool is_loopback(std::string_view address);

/// The error names the flag. Errors: an invalid address or origin, or no token while other machines
/// can connect. Thread: any.
base::Status check(const Access& access);

/// `access.hosts` and the names that reach its address. `host` is this machine's name.
std::vector<std::string> allowed_hosts(const Access& access, const std::string& host);

/// The addresses to listen on. An address with a colon may be missing on this machine.
/// REQUIRES: check(access).ok().
std::vector<std::string> listen_addresses(const std::string& bind);

}  // namespace tt::hub
