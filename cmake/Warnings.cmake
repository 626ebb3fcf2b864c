add_library(tt_warnings INTERFACE)
target_compile_options(tt_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow
  -Wnon-virtual-dtor -Woverloaded-virtual -Wno-unknown-pragmas
  # False alarms of GCC 12 about std::string (its bugs 105651 and 105329).
  -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
if(TT_WARNINGS_AS_ERRORS)
  target_compile_options(tt_warnings INTERFACE -Werror)
endif()
