add_library(crosscheck_warnings INTERFACE)
target_compile_options(crosscheck_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Wswitch-enum
  -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports both for libstdc++'s and Boost's own inlined code at -O2.
  target_compile_options(crosscheck_warnings INTERFACE -Wno-maybe-uninitialized -Wno-restrict)
endif()
