#pragma once

#include <cstddef>
#include <list>
#include <memory>

namespace tt::hub {

/// One accepted socket, in the view of the server's shutdown and limits.
/// Thread: the hub's I/O thread only.
class Connection {
 public:
  virtual ~Connection() = default;
  /// Ends the connection once everything queued is written.
  virtual void finish() = 0;
  /// Ends the connection now.
  virtual void kill() = 0;
};

/// The connections of one kind, oldest first. Owner: it owns no connection; each connection's
/// handlers own it.
/// Thread: the hub's I/O thread only.
class Connections {
 public:
  using Ticket = std::list<std::weak_ptr<Connection>>::iterator;

  Ticket add(std::weak_ptr<Connection> connection) {
    return all_.insert(all_.end(), std::move(connection));
  }
  void remove(Ticket ticket) { all_.erase(ticket); }
  std::size_t size() const { return all_.size(); }

  template <typename Action>
  void for_each(Action action) {
    const std::list<std::weak_ptr<Connection>> copy = all_;  // the action may end connections
    for (const std::weak_ptr<Connection>& weak : copy)
      if (const auto connection = weak.lock()) action(*connection);
  }
  void kill_oldest() {
    if (const auto oldest = all_.empty() ? nullptr : all_.front().lock()) {
      // The connection may need time to end, so the next call selects another connection.
      all_.splice(all_.end(), all_, all_.begin());
      oldest->kill();
    }
  }

 private:
  std::list<std::weak_ptr<Connection>> all_;
};

}  // namespace tt::hub
