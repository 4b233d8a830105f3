# The steps of the test `install_static`; see CMakeLists.txt beside it.
cmake_minimum_required(VERSION 3.24)
include("${CMAKE_CURRENT_LIST_DIR}/lib.cmake")

file(REMOVE_RECURSE "${WORK_DIR}")
set(prefix "${WORK_DIR}/prefix")
foreach(component IN ITEMS library development static)
  run(${CMAKE_COMMAND} --install "${BUILD_DIR}" --prefix "${prefix}" --component ${component})
endforeach()
expect_files("${prefix}" include/foretoken.h include/foretoken/core/tensor.h include/foretoken/backends/backend.h ${LIBDIR}/libforetoken_core.a)
expect_no_files("${prefix}/include/foretoken" backends/*/* apps/* tests/* speculative/c_api/*)

build_consumer(static "${prefix}")
run(${CMAKE_COMMAND} -E env "FORETOKEN_MODELS=${prefix}/${DATADIR}/foretoken/models" "${WORK_DIR}/static/consumer")
expect_match("model: ${prefix}/${DATADIR}/foretoken/models/tiny-dense\n")
expect_match("backend: cpu\n")

run(${CMAKE_COMMAND} -E env "PKG_CONFIG_PATH=${prefix}/${LIBDIR}/pkgconfig" "${PKG_CONFIG}" --cflags --libs ${STATIC_PC})
separate_arguments(flags UNIX_COMMAND "${output}")
run(cc "${CMAKE_CURRENT_LIST_DIR}/shared/main.c" -o "${WORK_DIR}/consumer" ${flags})
run("${WORK_DIR}/consumer")
expect_match("^foretoken ${VERSION}:( [0-9]+)+\n$")
