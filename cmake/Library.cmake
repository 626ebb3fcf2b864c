# tt_library(<folder> [TORCH] SOURCES … [DEPENDS …])
# The static library tt_<folder> of src/<folder> with the public headers of
# include/tensor_tracer/<folder>. TORCH links libtorch and shares its one precompiled header.
function(tt_library folder)
  cmake_parse_arguments(arg "TORCH" "" "SOURCES;DEPENDS" ${ARGN})
  set(target tt_${folder})
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE tt_warnings PUBLIC tt_options)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
    tt_group_sources(${target})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${target} ${scope} ${arg_DEPENDS})
  if(arg_TORCH)
    tt_use_torch(${target})
  endif()
endfunction()

# With TT_UNITY_BUILD: replaces the sources of a target by files that include five of them each,
# because most of the compile time of a source goes into headers that it shares with its neighbours.
# CMake's own UNITY_BUILD writes the name of the checkout's folder into these files, so that the
# compiler cache would not find them again for another clone.
function(tt_group_sources target)
  if(NOT TT_UNITY_BUILD)
    return()
  endif()
  # A source that another includes looks like a header to the compiler.
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  get_target_property(sources ${target} SOURCES)
  set(groups)
  while(sources)
    set(content)
    foreach(unused RANGE 1 5)
      list(POP_FRONT sources source)
      if(source)
        file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${source})
        string(APPEND content "#include \"${path}\"\n")
      endif()
    endforeach()
    list(LENGTH groups number)
    list(APPEND groups ${CMAKE_CURRENT_BINARY_DIR}/groups/${target}_${number}.cpp)
    file(CONFIGURE OUTPUT groups/${target}_${number}.cpp CONTENT "${content}" @ONLY)
  endwhile()
  set_target_properties(${target} PROPERTIES SOURCES "${groups}")
endfunction()

# Links libtorch and reuses its precompiled header, which is made with -fPIC: a program compiled with
# -fPIE could not read it.
function(tt_use_torch target)
  target_link_libraries(${target} PUBLIC tt_torch)
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM tt_torch_pch)
endfunction()

if(TT_WITH_TORCH)
  add_library(tt_torch_pch STATIC ${CMAKE_CURRENT_LIST_DIR}/torch_pch.cpp)
  target_link_libraries(tt_torch_pch PRIVATE tt_warnings PUBLIC tt_options tt_torch)
  target_precompile_headers(tt_torch_pch PRIVATE
    <ATen/ATen.h> <torch/csrc/autograd/custom_function.h>)
endif()
