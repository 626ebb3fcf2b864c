#include "tensor_tracer/base/ssh_command.h"

#include <gtest/gtest.h>

namespace tt::base {
namespace {

TEST(SshCommand, NothingWhereTheUserSitsAtTheMachine) {
  EXPECT_EQ(ssh_command({.host = "laptop"}, 8765), "");
  EXPECT_EQ(ssh_command({.host = "laptop", .slurm_submitter = "login1"}, 8765), "");
}

TEST(SshCommand, NamesTheMachineThatOneIsLoggedInto) {
  EXPECT_EQ(ssh_command({.host = "box", .ssh_connection = "10.0.0.1 5 10.0.0.2 22"}, 8766),
            "ssh -L 8766:127.0.0.1:8766 box");
}

TEST(SshCommand, JumpsOverTheLoginNode) {
  EXPECT_EQ(ssh_command({.host = "node17", .slurm_job = "4", .slurm_submitter = "login1"}, 8765),
            "ssh -L 8765:127.0.0.1:8765 -J login1 node17");
  EXPECT_EQ(ssh_command({.host = "node17", .slurm_job = "4"}, 8765),
            "ssh -L 8765:127.0.0.1:8765 -J LOGIN_NODE node17");
  EXPECT_EQ(ssh_command({.host = "login1", .slurm_job = "4", .slurm_submitter = "login1"}, 8765),
            "ssh -L 8765:127.0.0.1:8765 login1");
}

TEST(SshCommand, HasNothingInItThatAShellWouldRun) {
  EXPECT_EQ(ssh_command({.host = "n; rm x", .ssh_connection = "x"}, 1), "");
  EXPECT_EQ(ssh_command({.host = "-oProxyCommand", .ssh_connection = "x"}, 1), "");
  EXPECT_EQ(ssh_command({.host = "n", .slurm_job = "4", .slurm_submitter = "$(x)"}, 1),
            "ssh -L 1:127.0.0.1:1 -J LOGIN_NODE n");
}

}  // namespace
}  // namespace tt::base
