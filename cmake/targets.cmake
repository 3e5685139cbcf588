# One library per folder. The link lines below are the only arrows between folders.

# trainyard_batch(<out> <name> <files of this folder>): sets <out> to sources that each include TRAINYARD_BATCH of the files. A header that several
# files include is then read once, and a template compiled once. This halves the time of a whole build, but a changed file causes its batch to be
# compiled again. The files of a batch share their anonymous namespaces, so a name there is unique in its library (tidy_test checks it).
# CMake's own UNITY_BUILD writes absolute paths, with which a second clone would find nothing in ccache.
function(trainyard_batch out name)
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  list(LENGTH ARGN file_count)
  set(sources)
  set(count 0)
  foreach(file IN LISTS ARGN)
    if(IS_ABSOLUTE ${file} OR TRAINYARD_BATCH LESS 2 OR file_count EQUAL 1)
      list(APPEND sources ${file})
      continue()
    endif()
    math(EXPR number "${count} / ${TRAINYARD_BATCH}")
    math(EXPR count "${count} + 1")
    string(APPEND content_${number} "#include \"${folder}/${file}\"\n")
  endforeach()
  foreach(begin RANGE 0 ${count} ${TRAINYARD_BATCH})
    math(EXPR number "${begin} / ${TRAINYARD_BATCH}")
    if(content_${number})
      set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}_batch_${number}.cpp)
      file(CONFIGURE OUTPUT ${source} CONTENT "${content_${number}}")
      list(APPEND sources ${source})
    endif()
  endforeach()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# trainyard_library(<name> SOURCES <files> [PUBLIC <targets>] [PRIVATE <targets>] [HEADERS <target>]): the target trainyard_<name>.
# A folder of headers only becomes an INTERFACE library. HEADERS: the target with the precompiled headers, by default common's.
function(trainyard_library name)
  cmake_parse_arguments(arg "" "HEADERS" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  set(target trainyard_${name})
  if(arg_SOURCES)
    trainyard_batch(sources ${target} ${arg_SOURCES})
    add_library(${target} STATIC ${sources})
    target_link_libraries(${target} PUBLIC trainyard_compiler ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
    if(NOT arg_HEADERS)
      set(arg_HEADERS trainyard_headers)
    endif()
    trainyard_use_headers(${target} ${arg_HEADERS})
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE trainyard_compiler ${arg_PUBLIC} ${arg_PRIVATE})
  endif()
endfunction()

# trainyard_torch_library(<name> ...): a trainyard_library that links LibTorch and uses its precompiled headers.
function(trainyard_torch_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  trainyard_library(${name} SOURCES ${arg_SOURCES} PUBLIC ${arg_PUBLIC} torch::cpu PRIVATE ${arg_PRIVATE} HEADERS trainyard_torch_headers)
endfunction()

# trainyard_use_headers(<target> <headers>): <target> reuses the precompiled headers of <headers>, if there are any for this compiler.
function(trainyard_use_headers target headers)
  target_link_libraries(${target} PRIVATE ${headers})
  get_target_property(precompiled ${headers} PRECOMPILE_HEADERS)
  if(NOT precompiled)
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${headers})
  # The precompiled header is made with -fPIC; an executable's -fPIE would not match it.
  get_target_property(kind ${target} TYPE)
  if(kind STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

# trainyard_test_library(<name> SOURCES <files> [PUBLIC <targets>] [PRIVATE <targets>]): a trainyard_library for tests, with the tests' precompiled
# headers.
function(trainyard_test_library name)
  trainyard_library(${name} ${ARGN} HEADERS trainyard_test_headers)
endfunction()

# The tests that the sanitizer builds build and run: all unit tests without torch, and the tests that say SANITIZED.
add_custom_target(sanitized_tests)
# All other tests: a whole test run does not repeat the sanitized tests without a sanitizer.
add_custom_target(plain)

# trainyard_test(<name> SOURCES <files> LINK <targets> [LABELS unit|integration] [TIMEOUT <seconds>] [TORCH] [SANITIZED] [PLAIN])
# Every test is an executable of GoogleTest cases, and one entry of ctest. TORCH: it links LibTorch. Unit tests without torch run under the
# sanitizers; other tests only with SANITIZED. PLAIN: it also runs without a sanitizer, since it checks less under one. The files of a test share a
# batch, and so their anonymous namespaces.
function(trainyard_test name)
  cmake_parse_arguments(arg "TORCH;SANITIZED;PLAIN" "LABELS;TIMEOUT" "SOURCES;LINK" ${ARGN})
  trainyard_batch(sources ${name} ${arg_SOURCES})
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE trainyard_compiler ${arg_LINK} GTest::gmock GTest::gtest_main)
  if(arg_TORCH)
    target_link_libraries(${name} PRIVATE torch::cpu)
    trainyard_use_headers(${name} trainyard_torch_headers)
  else()
    trainyard_use_headers(${name} trainyard_test_headers)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  set(is_sanitized OFF)
  if(arg_SANITIZED OR (arg_LABELS STREQUAL "unit" AND NOT arg_TORCH))
    set(is_sanitized ON)
  endif()
  # ThreadSanitizer runs the tests of the folders that have threads.
  if(TRAINYARD_SANITIZE MATCHES "thread"
     AND NOT CMAKE_CURRENT_SOURCE_DIR MATCHES "/tests/(common|local|storage|fakes|operator/(control|manager)|worker/(rank|launcher)|checkpoint/(group|format|run|snapshot))")
    set(is_sanitized OFF)
  endif()
  if(arg_PLAIN AND NOT TRAINYARD_SANITIZE)
    set(is_sanitized OFF)
  endif()
  if(is_sanitized)
    add_dependencies(sanitized_tests ${name})
    list(APPEND arg_LABELS sanitized)
  else()
    add_dependencies(plain ${name})
  endif()
  add_test(NAME ${name} COMMAND ${name})
  # The label gtest: scripts/test_results.py expects a report of the test's cases.
  # COST: ctest starts the tests with the longest time limits first, so that no long test runs alone at the end.
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS};gtest" TIMEOUT ${arg_TIMEOUT} COST ${arg_TIMEOUT})
  if(TRAINYARD_SANITIZE MATCHES "thread")
    # By default ThreadSanitizer delays the end of every program by a second, to see races with threads that still run. The tests start hundreds
    # of programs, and some of them measure how long a program takes to end.
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "TSAN_OPTIONS=atexit_sleep_ms=50")
  endif()
endfunction()
