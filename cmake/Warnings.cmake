add_library(crosscheck_warnings INTERFACE)
target_compile_options(crosscheck_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Wswitch-enum
  -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports both for libstdc++'s and Boost's own inlined code at -O2.
  target_compile_options(crosscheck_warnings INTERFACE -Wno-maybe-uninitialized -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++ 12's own std::stable_sort uses what it calls deprecated; Clang counts that as our code.
  target_compile_options(crosscheck_warnings INTERFACE -Wno-deprecated-declarations)
endif()
