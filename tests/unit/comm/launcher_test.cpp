#include "tensor_tracer/comm/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <ostream>

namespace tt::comm {
namespace {

using Variables = std::map<std::string, std::string>;

base::Result<Launch> detect(const Variables& variables) {
  return detect_launch([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

struct Good {
  const char* name;
  Variables variables;
  Launch launch;
  friend std::ostream& operator<<(std::ostream& out, const Good& good) { return out << good.name; }
};

const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "5"},
                         {"OMPI_COMM_WORLD_SIZE", "8"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};

const Variables kSlurm{{"SLURM_STEP_ID", "0"},
                       {"SLURM_PROCID", "6"},
                       {"SLURM_STEP_NUM_TASKS", "7"},
                       {"SLURM_NTASKS", "99"},
                       {"PMIX_RANK", "6"},
                       {"SLURM_LOCALID", "0"},
                       {"SLURM_NODEID", "3"},
                       {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}};

const Variables kTorchrun{{"RANK", "3"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "node7"},
                          {"MASTER_PORT", "29500"}};

Variables with(Variables base, const Variables& changes) {
  for (const auto& [name, value] : changes) base[name] = value;
  return base;
}

Variables without(Variables base, std::initializer_list<const char*> names) {
  for (const char* name : names) base.erase(name);
  return base;
}

const std::vector<Good> kGood = {
    {"nothing", {}, {"none", 0, 1, 0, 1}},
    {"open_mpi", kOpenMpi, {"Open MPI", 5, 8, 1, 4}},
    {"open_mpi_inside_slurm", with(kSlurm, kOpenMpi), {"Open MPI", 5, 8, 1, 4}},
    {"open_mpi_and_torchrun",
     with(kOpenMpi, {{"RANK", "0"}, {"WORLD_SIZE", "2"}}),
     {"Open MPI", 5, 8, 1, 4}},
    {"slurm", kSlurm, {"Slurm", 6, 7, 0, 1}},
    {"slurm_second_node",
     with(kSlurm, {{"SLURM_PROCID", "3"},
                   {"PMIX_RANK", "3"},
                   {"SLURM_LOCALID", "1"},
                   {"SLURM_NODEID", "1"}}),
     {"Slurm", 3, 7, 1, 2}},
    {"slurm_pmi2_old_names",
     {{"SLURM_STEP_ID", "1"},
      {"SLURM_PROCID", "1"},
      {"SLURM_NTASKS", "2"},
      {"PMI_RANK", "1"},
      {"SLURM_LOCALID", "1"},
      {"SLURM_TASKS_PER_NODE", "2"}},
     {"Slurm", 1, 2, 1, 2}},
    {"slurm_one_task_without_plugin",
     {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}},
     {"none", 0, 1, 0, 1}},
    {"slurm_batch_shell",
     {{"SLURM_JOB_ID", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "16"}},
     {"none", 0, 1, 0, 1}},
    {"pmix_alone", {{"PMIX_RANK", "1"}, {"PMIX_SIZE", "3"}}, {"PMIx", 1, 3, 0, 1}},
    {"torchrun", kTorchrun, {"torchrun", 3, 4, 1, 2}},
    {"torchrun_of_one", {{"RANK", "0"}, {"WORLD_SIZE", "1"}}, {"none", 0, 1, 0, 1}},
};

class GoodLaunch : public testing::TestWithParam<Good> {};

TEST_P(GoodLaunch, IsRead) {
  const base::Result<Launch> launch = detect(GetParam().variables);
  ASSERT_TRUE(launch.ok()) << to_string(launch.error());
  const Launch& expected = GetParam().launch;
  EXPECT_EQ(launch.value().launcher, expected.launcher);
  EXPECT_EQ(launch.value().rank, expected.rank);
  EXPECT_EQ(launch.value().world_size, expected.world_size);
  EXPECT_EQ(launch.value().local_rank, expected.local_rank);
  EXPECT_EQ(launch.value().local_size, expected.local_size);
  EXPECT_EQ(launch.value().is_launched(), expected.launcher != "none");
  EXPECT_EQ(launch.value().uses_mpi(),
            expected.launcher != "none" && expected.launcher != "torchrun");
}

TEST(Torchrun, HostsTheStoreOrRankZeroDoes) {
  const RankStore store = detect(kTorchrun).value().store;
  EXPECT_EQ(store.host, "node7");
  EXPECT_EQ(store.port, 29500);
  EXPECT_TRUE(store.is_hosted);
  EXPECT_EQ(store.attempt, 0);
  const Variables elastic = {{"TORCHELASTIC_USE_AGENT_STORE", "True"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"}};
  const RankStore of_torchrun = detect(with(kTorchrun, elastic)).value().store;
  EXPECT_FALSE(of_torchrun.is_hosted);
  EXPECT_EQ(of_torchrun.attempt, 2);
}

INSTANTIATE_TEST_SUITE_P(Table, GoodLaunch, testing::ValuesIn(kGood),
                         [](const auto& test) { return test.param.name; });

struct Bad {
  const char* name;
  Variables variables;
  const char* text;
  friend std::ostream& operator<<(std::ostream& out, const Bad& bad) { return out << bad.name; }
};

const std::vector<Bad> kBad = {
    {"torchrun_without_local_rank", without(kTorchrun, {"LOCAL_RANK"}), "LOCAL_RANK: is not set"},
    {"torchrun_without_store", without(kTorchrun, {"MASTER_ADDR"}),
     "MASTER_ADDR: is not set; start the program with mpirun -np N, or with torchrun"},
    {"torchrun_without_port", with(kTorchrun, {{"MASTER_PORT", "0"}}),
     "MASTER_PORT: is not a port"},
    {"torchrun_with_a_large_port", with(kTorchrun, {{"MASTER_PORT", "65536"}}),
     "MASTER_PORT: is not a port"},
    {"torchrun_rank_beyond_world", with(kTorchrun, {{"RANK", "4"}}), "rank 4 of 4"},
    {"srun_without_plugin", without(kSlurm, {"PMIX_RANK"}), "use srun --mpi=pmix"},
    {"not_a_number", with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "1x"}}),
     "OMPI_COMM_WORLD_RANK: \"1x\" is not a number"},
    {"empty", with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", ""}}), "\"\" is not a number"},
    {"negative", with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "-1"}}), "\"-1\" is not a number"},
    {"half_set", without(kOpenMpi, {"OMPI_COMM_WORLD_RANK"}), "OMPI_COMM_WORLD_RANK: is not set"},
    {"rank_beyond_world", with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "8"}}), "rank 8 of 8"},
    {"local_rank_beyond_node", with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", "4"}}),
     "local rank 4 of 4"},
    {"node_beyond_world", with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "9"}}),
     "9 ranks on this node of 8"},
    {"slurm_against_pmix", with(kSlurm, {{"PMIX_RANK", "5"}}),
     "SLURM_PROCID is 6, the MPI plug-in's rank 5"},
    {"slurm_short_node_list", with(kSlurm, {{"SLURM_NODEID", "4"}}), "has no entry"},
    {"slurm_bad_node_list", with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(xx),1"}}),
     "is not a number"},
    {"pmix_without_size", {{"PMIX_RANK", "0"}}, "PMIX_SIZE: is not set"},
};

class BadLaunch : public testing::TestWithParam<Bad> {};

TEST_P(BadLaunch, SaysWhatIsWrong) {
  const base::Result<Launch> launch = detect(GetParam().variables);
  ASSERT_FALSE(launch.ok());
  EXPECT_THAT(to_string(launch.error()), testing::HasSubstr(GetParam().text));
}

INSTANTIATE_TEST_SUITE_P(Table, BadLaunch, testing::ValuesIn(kBad),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tt::comm
