#pragma once

#include "src/comm/group_impl.h"
#include "tensor_tracer/comm/collective_log.h"

namespace tt::comm::detail {

/// Records a call of an operation in the sequence and the log of its group. It is open until end().
inline OpenCall begin_call(GroupImpl& group, const CallFacts& facts) {
  if (facts.peer < 0) group.sequence().record(facts.operation, facts.bytes, facts.dtype);
  if (group.log() == nullptr) return {};
  return {group.log(), group.log()->begin(group.log_index(), facts)};
}

/// A call that ends with this object.
class Operation {
 public:
  Operation(GroupImpl& group, const CallFacts& facts) : call_(begin_call(group, facts)) {}
  ~Operation() { call_.end(); }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

 private:
  const OpenCall call_;
};

/// This rank waits for an open call until the end of this object.
class Waiting {
 public:
  explicit Waiting(const OpenCall& call) : log_(call.log) {
    if (log_ != nullptr) log_->begin_wait(call.number);
  }
  ~Waiting() {
    if (log_ != nullptr) log_->end_wait();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  CollectiveLog* const log_;
};

}  // namespace tt::comm::detail
