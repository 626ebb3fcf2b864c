option(TT_WITH_TORCH "Build what links libtorch; without it only the hub is built" ON)
option(TT_BUILD_TESTS "Build the tests" OFF)
option(TT_UNITY_BUILD "Compile sources in groups: all of them in half the time, one change in more" OFF)
option(TT_WHEEL "Install the wheel tensor-tracer-torch" OFF)
option(TT_WARNINGS_AS_ERRORS "Treat warnings as errors" ${PROJECT_IS_TOP_LEVEL})
option(TT_ASAN_UBSAN "Address and undefined-behaviour sanitizers" OFF)
option(TT_TSAN "Thread sanitizer" OFF)
option(TT_FUZZ "The libFuzzer targets of tests/fuzz; needs clang" OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_program(TT_CCACHE ccache)
if(TT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # A precompiled header needs these two allowances, says ccache's manual. With relative paths another
  # clone, such as that of CI, finds what this one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true ${TT_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
