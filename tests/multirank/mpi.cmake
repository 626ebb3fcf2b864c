# The suite under mpirun.
function(add_mpi_test name ranks)
  add_test(NAME ${name}
    COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe -np ${ranks} $<TARGET_FILE:mpi_tests> ${ARGN})
  set_tests_properties(${name} PROPERTIES
    ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
    PROCESSORS ${ranks} RUN_SERIAL ON LABELS multirank TIMEOUT 300)
endfunction()
foreach(ranks 1 2 3 4 8)
  add_mpi_test(mpi_${ranks} ${ranks})
endforeach()
foreach(ranks 2 3)
  add_mpi_test(mpi_plain_${ranks} ${ranks} --plain-mpi)
endforeach()

# Where one process may not read another's memory, as in many containers, a pending gather goes on
# only while its sender is in MPI.
add_mpi_test(mpi_copying_2 2)
set_property(TEST mpi_copying_2 APPEND PROPERTY ENVIRONMENT
  "OMPI_MCA_btl_vader_single_copy_mechanism=none")

# Started by a launcher of another MPI: the world is one rank, whatever the environment says.
add_test(NAME mpi_foreign_launcher
  COMMAND ${CMAKE_COMMAND} -E env PMI_RANK=0 PMI_SIZE=2 $<TARGET_FILE:mpi_tests>)
set_tests_properties(mpi_foreign_launcher PROPERTIES LABELS multirank RUN_SERIAL ON
  PASS_REGULAR_EXPRESSION "says rank 0 of 2, MPI says rank 0 of 1")

# Not a test: measures MPI's collectives against ours.
add_executable(comm_bench EXCLUDE_FROM_ALL comm_bench.cpp)
tt_use_torch(comm_bench)
target_link_libraries(comm_bench PRIVATE tt_comm_world tt_mpi tt_warnings)
