#pragma once

#include <sys/types.h>

#include <cstdint>
#include <istream>

namespace tt::link {

/// The owner of the program that listens on a port of 127.0.0.1, as far as /proc/net states it.
enum class ListenerOwner { kOurs, kNotOurs, kUnknown };

/// Reads a text such as /proc/net/tcp or tcp6. kNotOurs if a user other than `own` listens there,
/// kUnknown if no program listens there. Thread: any.
ListenerOwner listener_owner(std::istream& table, std::uint16_t port, uid_t own);

/// The same for this machine's own tables; kUnknown only if the machine has no such tables. Thread:
/// any.
ListenerOwner listener_owner(std::uint16_t port);

}  // namespace tt::link
