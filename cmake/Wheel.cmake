# The wheel tensor-tracer-torch (python/torch): what `tensor_tracer.attach` loads and starts, for the PyTorch of the
# interpreter that builds it.
set(TT_WHEEL_PAGE ${PROJECT_SOURCE_DIR}/frontend/dist)
if(NOT EXISTS ${TT_WHEEL_PAGE}/index.html)
  message(FATAL_ERROR "the page is not built: run scripts/setup.sh --for demo, or npm run build in frontend/")
endif()

find_package(Python REQUIRED COMPONENTS Interpreter)
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "if True:
    from importlib import metadata, util
    print(metadata.version('torch').partition('+')[0], util.find_spec('torch').submodule_search_locations[0], sep=';', end='')"
  OUTPUT_VARIABLE TT_WHEEL_TORCH RESULT_VARIABLE TT_WHEEL_FAILED)
if(TT_WHEEL_FAILED)
  message(FATAL_ERROR "no torch in ${Python_EXECUTABLE}: install it, then use pip with --no-build-isolation")
endif()
list(GET TT_WHEEL_TORCH 0 TT_WHEEL_BUILT_FOR)
list(GET TT_WHEEL_TORCH 1 TT_LIBTORCH)
set(TT_WITH_C10D ON)

# Installs library, hub and page. REQUIRES: the targets exist. The wheel contains all shared libraries that library and
# hub load, except those of glibc, which every machine has. The library loads the libstdc++ that PyTorch has loaded,
# because exceptions cross between them.
function(tt_install_wheel)
  set(glibc "^lib(c|m|dl|pthread|rt)\\.so" "^ld-linux")
  set_target_properties(tensor-tracer-hub PROPERTIES INSTALL_RPATH "$ORIGIN/../hub_lib")
  target_link_options(tensor-tracer-hub PRIVATE -Wl,--disable-new-dtags)
  install(TARGETS tensor-tracer-hub RUNTIME_DEPENDENCY_SET of_hub RUNTIME DESTINATION bin)
  install(RUNTIME_DEPENDENCY_SET of_hub PRE_EXCLUDE_REGEXES ${glibc} LIBRARY DESTINATION hub_lib)

  set_target_properties(tensor_tracer_torch PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/../../torch/lib")
  install(TARGETS tensor_tracer_torch RUNTIME_DEPENDENCY_SET of_library LIBRARY DESTINATION lib)
  install(RUNTIME_DEPENDENCY_SET of_library
    PRE_EXCLUDE_REGEXES ${glibc} "^lib(stdc\\+\\+|gcc_s|torch.*|c10)\\.so" LIBRARY DESTINATION lib)

  file(CONFIGURE OUTPUT wheel/__init__.py
    CONTENT "\"\"\"The C++ half of tensor_tracer.attach.\"\"\"\n\nBUILT_FOR = \"@TT_WHEEL_BUILT_FOR@\"\n" @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/wheel/__init__.py DESTINATION .)
  install(DIRECTORY ${TT_WHEEL_PAGE}/ DESTINATION page)
endfunction()
