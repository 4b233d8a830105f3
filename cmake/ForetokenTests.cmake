# foretoken_test(<name> SOURCES ... [LIBS ...] [LABELS ...]): one GoogleTest executable; ctest lists its cases as <name>.<suite>.<case>.
include(GoogleTest)

function(foretoken_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  foretoken_configure(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE FORETOKEN_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  target_link_libraries(${name} PRIVATE ${arg_LIBS} GTest::gtest GTest::gtest_main)
  set(cost 0)
  if("slow" IN_LIST arg_LABELS)  # ctest starts the costly ones first, so that none is left alone at the end
    set(cost 100)
  endif()
  set(lock)
  if("large" IN_LIST arg_LABELS)  # takes 8 GB or more: one such test at a time
    set(lock RESOURCE_LOCK large)
  endif()
  gtest_discover_tests(${name}
    DISCOVERY_MODE PRE_TEST TEST_PREFIX ${name}. TEST_LIST ${name}_cases PROPERTIES TIMEOUT 1200 COST ${cost} ${lock})
  if(arg_LABELS)  # gtest_discover_tests takes no property whose value is a list, so ctest reads the labels from a file of their own
    set(labels_file "${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake")
    file(WRITE "${labels_file}" "if(${name}_cases)\n  set_tests_properties(\${${name}_cases} PROPERTIES LABELS \"${arg_LABELS}\")\nendif()\n")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_file}")
  endif()
endfunction()
