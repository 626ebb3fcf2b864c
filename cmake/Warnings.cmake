add_library(tt_warnings INTERFACE)
target_compile_options(tt_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow
  -Wnon-virtual-dtor -Woverloaded-virtual -Wno-unknown-pragmas)
if(TT_WARNINGS_AS_ERRORS)
  target_compile_options(tt_warnings INTERFACE -Werror)
endif()
