# The steps of the test `install`; see CMakeLists.txt beside it.
cmake_minimum_required(VERSION 3.24)
include("${CMAKE_CURRENT_LIST_DIR}/lib.cmake")

file(REMOVE_RECURSE "${WORK_DIR}")
set(prefix "${WORK_DIR}/prefix")
run(${CMAKE_COMMAND} --install "${BUILD_DIR}" --prefix "${prefix}")
expect_files("${prefix}" include/foretoken.h include/foretoken/device.h include/foretoken/device.hpp ${LIBDIR}/libforetoken.so
  ${LIBDIR}/pkgconfig/foretoken.pc ${LIBDIR}/cmake/foretoken/foretokenConfig.cmake ${DATADIR}/foretoken/models/tiny-dense/config.json)
expect_no_files("${prefix}" *.a include/*/backend.h include/*/tensor.h include/foretoken/*/*)

# What the library shows to others.
run("${NM}" -D --defined-only "${prefix}/${LIBDIR}/libforetoken.so")
string(REGEX MATCHALL "[^\n ]+\n" symbols "${output}")
string(REGEX REPLACE "foretoken_[a-z0-9_]+\n;?" "" others "${symbols}")
if(others OR NOT symbols)
  message(FATAL_ERROR "libforetoken.so exports more than its API, or nothing: ${others}")
endif()

file(GLOB modules "${prefix}/${MODULE_DIR}/*.so")
foreach(module IN LISTS modules)
  run("${NM}" -D --defined-only "${module}")
  expect_match(" foretoken_backend_module\n")
  if(output MATCHES "_Z[A-Za-z0-9_]*9foretoken[A-Za-z0-9_]*")
    message(FATAL_ERROR "${module} exports ${CMAKE_MATCH_0}")
  endif()
endforeach()

# Users: a project in C with CMake, and a compiler with pkg-config.
build_consumer(shared "${prefix}")
run("${WORK_DIR}/shared/consumer")
expect_match("^foretoken ${VERSION}:( [0-9]+)+\n$")
set(expected "${output}")
run(${CMAKE_COMMAND} -E env "PKG_CONFIG_PATH=${prefix}/${LIBDIR}/pkgconfig" "${PKG_CONFIG}" --cflags --libs foretoken)
separate_arguments(flags UNIX_COMMAND "${output}")
run(cc "${CMAKE_CURRENT_LIST_DIR}/shared/main.c" -o "${WORK_DIR}/consumer" ${flags})

# All of it goes elsewhere. The checkpoint of the source tree would serve too, so the installed one is broken once.
set(moved "${WORK_DIR}/moved")
file(RENAME "${prefix}" "${moved}")
set(unset ${CMAKE_COMMAND} -E env --unset=FORETOKEN_MODELS --unset=FORETOKEN_BACKEND_PATH --unset=FORETOKEN_BACKEND)
set(consumer ${unset} "LD_LIBRARY_PATH=${moved}/${LIBDIR}" "${WORK_DIR}/consumer")
run(${consumer})
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "expected ${expected}, got ${output}")
endif()
set(config "${moved}/${DATADIR}/foretoken/models/tiny-dense/config.json")
file(RENAME "${config}" "${config}.kept")
file(WRITE "${config}" "{")
run_failing("format error: ${config}" ${consumer})
if(HAS_TOOL)
  set(tool ${unset} "${moved}/${BINDIR}/foretoken")
  run_failing("${config}" ${tool} generate --backend cpu --token-ids 1,2,3 --max-tokens 4 --json)
endif()
file(RENAME "${config}.kept" "${config}")

# A backend module is found beside the library, and its exceptions cross into it.
file(COPY "${FAKE_MODULE}" DESTINATION "${moved}/${MODULE_DIR}")
run_failing("device error: the device is lost" ${CMAKE_COMMAND} -E env FORETOKEN_TEST_FAKE_GPU=broken ${consumer} vulkan:1)
if(HAS_TOOL)
  run_failing("device error: the device is lost" ${CMAKE_COMMAND} -E env FORETOKEN_TEST_FAKE_GPU=broken
    ${tool} generate --backend vulkan:1 --token-ids 1,2,3)
  run(${tool} generate --backend cpu --token-ids 1,2,3 --max-tokens 4 --json)
  expect_match("\"output_token_ids\"")
  run(${tool} devices --json)
  get_filename_component(module "${FAKE_MODULE}" NAME)
  expect_match("${moved}/${MODULE_DIR}/${module}")
  expect_files("${moved}" ${MANDIR}/man1/foretoken.1 ${DATADIR}/bash-completion/completions/foretoken)
endif()
