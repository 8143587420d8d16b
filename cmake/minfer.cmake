# Shared build settings: warnings, sanitizers, and the two helpers that every folder uses.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(minfer_flags INTERFACE)
target_compile_options(minfer_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wshadow -Wno-unused-parameter>
  # GCC 12 sees overlapping copies in every "literal" + std::string (GCC bug 105651).
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
if(MINFER_WERROR)
  target_compile_options(minfer_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()
if(MINFER_SANITIZE)
  add_compile_options(-fsanitize=${MINFER_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${MINFER_SANITIZE})
  if(MINFER_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()

# Coverage for libFuzzer; its run-time part comes with the address sanitizer.
if(MINFER_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Adds each named folder that holds a CMakeLists.txt.
function(minfer_subdirectories)
  foreach(dir IN LISTS ARGN)
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${dir}/CMakeLists.txt)
      add_subdirectory(${dir})
    endif()
  endforeach()
endfunction()

# minfer_component(NAME SOURCES ... DEPS ...): an object library that becomes part of
# libminfer_core.so and that unit tests can also link alone.
function(minfer_component name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} OBJECT ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC
    ${PROJECT_SOURCE_DIR}/core/include ${PROJECT_SOURCE_DIR}/core/src)
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} fmt::fmt PRIVATE minfer_flags)
  set_property(GLOBAL APPEND PROPERTY MINFER_COMPONENTS ${name})
endfunction()

# minfer_test(NAME SOURCES ... LIBS ... [LABELS ...]): a GoogleTest binary whose cases ctest lists one
# by one. MINFER_SOURCE_DIR and MINFER_BINARY_DIR are defined for tests that need files. Object
# libraries in LIBS must include what they depend on, since object files do not travel transitively.
function(minfer_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest GTest::gtest_main minfer_flags)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE
    MINFER_SOURCE_DIR="${PROJECT_SOURCE_DIR}" MINFER_BINARY_DIR="${PROJECT_BINARY_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT 600 LABELS "${ARG_LABELS}")
endfunction()
