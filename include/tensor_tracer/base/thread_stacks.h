#pragma once

#include <string>

namespace tt::base {

/// Lets thread_stacks() interrupt the threads of this process, by a real-time signal that nothing
/// else uses. Call it once, before thread_stacks().
void prepare_thread_stacks();

/// The stack of each thread with the names of functions, for people. A thread that does not answer
/// within a fifth of a second has a line that says so. System calls of the threads are restarted,
/// or end with EINTR. Thread: one at a time.
std::string thread_stacks();

}  // namespace tt::base
