find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)

if(TT_WITH_TORCH)
  if(NOT TT_LIBTORCH)
    message(FATAL_ERROR "TT_LIBTORCH is not set: give the libtorch root "
      "(python -c 'import torch; print(torch.utils.cmake_prefix_path)'/../..), or run scripts/setup.sh")
  endif()
  find_package(MPI REQUIRED COMPONENTS CXX)
  # Only errors: the CPU wheel has no static kineto, and TorchConfig warns of it every time.
  set(CMAKE_MESSAGE_LOG_LEVEL ERROR)
  find_package(Torch REQUIRED PATHS ${TT_LIBTORCH} ${TT_LIBTORCH}/share/cmake NO_DEFAULT_PATH)
  unset(CMAKE_MESSAGE_LOG_LEVEL)

  add_library(tt_mpi INTERFACE)
  target_link_libraries(tt_mpi INTERFACE MPI::MPI_CXX)
  target_compile_definitions(tt_mpi INTERFACE OMPI_SKIP_MPICXX)

  # libtorch's headers are system headers, and its flags stand here alone.
  separate_arguments(torch_flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
  add_library(tt_torch INTERFACE)
  target_include_directories(tt_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  target_link_libraries(tt_torch INTERFACE ${TORCH_LIBRARIES})
  target_compile_options(tt_torch INTERFACE ${torch_flags})
endif()

if(TT_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
