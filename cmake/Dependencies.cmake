find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(SQLiteCpp REQUIRED)
find_library(TT_PCRE2 pcre2-8 NO_CACHE REQUIRED)
find_library(TT_UTF8PROC utf8proc NO_CACHE REQUIRED)

if(TT_WITH_TORCH)
  if(NOT TT_LIBTORCH)
    message(FATAL_ERROR "TT_LIBTORCH is not set: give the libtorch root "
      "(python -c 'import torch; print(torch.utils.cmake_prefix_path)'/../..), or run scripts/setup.sh")
  endif()
  if(NOT DEFINED TT_WITH_MPI)
    find_package(MPI COMPONENTS CXX)
  endif()
  option(TT_WITH_MPI "Build the mpi backend: more than one rank; by default where MPI is found" ${MPI_CXX_FOUND})
  if(TT_WITH_MPI)
    find_package(MPI REQUIRED COMPONENTS CXX)
    add_library(tt_mpi INTERFACE)
    target_link_libraries(tt_mpi INTERFACE MPI::MPI_CXX)
    target_compile_definitions(tt_mpi INTERFACE OMPI_SKIP_MPICXX)
  endif()

  # libtorch has gloo's code, but not its headers.
  find_path(TT_GLOO_INCLUDE gloo/algorithm.h NO_CACHE)
  if(TT_GLOO_INCLUDE)
    set(TT_FOUND_GLOO ON)
  endif()
  option(TT_WITH_C10D "Build the c10d backend: ranks of torchrun; by default where gloo's headers are found" ${TT_FOUND_GLOO})
  if(TT_WITH_C10D AND NOT TT_GLOO_INCLUDE)
    message(FATAL_ERROR "gloo's headers are missing (on Debian: apt-get install libgloo-dev)")
  endif()

  # Not by default: a compiler of CUDA may be there that does not know the C++ compiler.
  option(TT_WITH_CUDA "Compile the kernels for CUDA; needs nvcc 12 or newer, and neither a GPU nor a CUDA libtorch" OFF)
  if(TT_WITH_CUDA)
    # Code of these GPUs, and for newer ones code that the driver compiles.
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
    endif()
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc compiles C++20
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    endif()
  endif()

  # The part of libtorch that runs on the CPU. Its own package file is not used: that of a CUDA build,
  # the default of many package indexes, demands a CUDA toolkit.
  find_library(TT_TORCH_CPU torch_cpu PATHS ${TT_LIBTORCH}/lib NO_DEFAULT_PATH NO_CACHE REQUIRED)
  find_library(TT_C10 c10 PATHS ${TT_LIBTORCH}/lib NO_DEFAULT_PATH NO_CACHE REQUIRED)
  add_library(tt_torch INTERFACE)
  target_include_directories(tt_torch SYSTEM INTERFACE
    ${TT_LIBTORCH}/include ${TT_LIBTORCH}/include/torch/csrc/api/include)
  target_compile_definitions(tt_torch INTERFACE
    USE_C10D_GLOO USE_DISTRIBUTED USE_RPC USE_TENSORPIPE)  # as libtorch itself was built
  target_link_libraries(tt_torch INTERFACE ${TT_TORCH_CPU} ${TT_C10})
endif()

if(TT_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
