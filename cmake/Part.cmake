# crosscheck_part(<name> LINKS <parts the header may show> USES <libraries and parts the sources use>)
#
# One static library a part, so that an include in the wrong direction does not build:
#   cli -> parts -> {store, github, net} -> base
# Headers:  src/<name>/include/crosscheck/<name>/*.h     Sources: src/<name>/src/*.cc
# Tests:    src/<name>/test/*_test.cc -> one binary <name>_test     Fuzz targets: src/<name>/fuzz/*_fuzz.cc
set(crosscheck_ground base net store github)
# Exceptions, one a line: <part>-><part it may link>, and why.
set(crosscheck_exceptions
  "github->net"          # makes REST calls and fetches key sets; a transport interface of its own would be net's twin
  "reconcile->config")   # proposes changes of a test configuration, and writes them

function(crosscheck_part name)
  cmake_parse_arguments(arg "" "" "LINKS;USES;TEST_USES" ${ARGN})
  foreach(other IN LISTS arg_LINKS arg_USES)
    if(other MATCHES "^crosscheck_(.+)$")
      set(part ${CMAKE_MATCH_1})
      if("${name}->${part}" IN_LIST crosscheck_exceptions)
      elseif(name IN_LIST crosscheck_ground AND NOT part STREQUAL "base")
        message(FATAL_ERROR "${name} is on the ground floor: it may link crosscheck_base only, not ${other}")
      elseif(NOT name IN_LIST crosscheck_ground AND NOT part IN_LIST crosscheck_ground)
        message(FATAL_ERROR "${name} may not link its sibling ${other}")
      endif()
    endif()
  endforeach()
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/include/crosscheck/${name}/*.h)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/*.cc)
  add_library(crosscheck_${name} STATIC ${sources})
  target_sources(crosscheck_${name} PUBLIC FILE_SET HEADERS
    BASE_DIRS ${CMAKE_CURRENT_SOURCE_DIR}/include FILES ${headers})
  target_link_libraries(crosscheck_${name} PUBLIC ${arg_LINKS} PRIVATE crosscheck_warnings ${arg_USES})

  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/test/*_test.cc)
  if(CROSSCHECK_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE
      crosscheck_${name} crosscheck_warnings ${arg_USES} ${arg_TEST_USES} GTest::gmock GTest::gtest_main)
    target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR}/src/base/test/include)
    target_compile_definitions(${name}_test PRIVATE CROSSCHECK_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    set_target_properties(${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
    add_test(NAME ${name} COMMAND ${name}_test)
  endif()
  crosscheck_fuzz(${name} ${arg_USES})
endfunction()
