#pragma once

#include <sys/types.h>

#include <cstdint>
#include <istream>

namespace tt::link {

/// Whose program listens on a port of 127.0.0.1, as far as /proc/net tells.
enum class ListenerOwner { kOurs, kNotOurs, kUnknown };

/// Of text such as /proc/net/tcp or tcp6: kNotOurs if a user but `own` listens there, kUnknown if
/// nobody does. Thread: any.
ListenerOwner listener_owner(std::istream& table, std::uint16_t port, uid_t own);

/// The same of this machine's own tables; kUnknown only where it has none. Thread: any.
ListenerOwner listener_owner(std::uint16_t port);

}  // namespace tt::link
