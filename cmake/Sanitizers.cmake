# CROSSCHECK_SANITIZE: empty, "address,undefined" or "thread". For the whole build: a mixed one lies.
set(CROSSCHECK_SANITIZE "" CACHE STRING "Sanitizers for the whole build")
if(CROSSCHECK_SANITIZE)
  add_compile_options(-fsanitize=${CROSSCHECK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${CROSSCHECK_SANITIZE})
  if(CROSSCHECK_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Asio uses atomic_thread_fence, which g++'s thread sanitizer does not model.
    add_compile_options(-Wno-tsan)
  endif()
endif()
