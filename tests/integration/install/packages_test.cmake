# The steps of the test `packages`; see CMakeLists.txt beside it.
cmake_minimum_required(VERSION 3.24)
include("${CMAKE_CURRENT_LIST_DIR}/lib.cmake")

file(REMOVE_RECURSE "${WORK_DIR}")
run("${CPACK}" --config "${BUILD_DIR}/CPackConfig.cmake" -B "${WORK_DIR}" -D CPACK_DEBIAN_COMPRESSION_TYPE=none)

# expect_contents(<package> <path>...): a package of that name has these files.
function(expect_contents package)
  file(GLOB deb "${WORK_DIR}/${package}_*.deb")
  run("${DPKG_DEB}" -c "${deb}")
  foreach(path IN LISTS ARGN)
    expect_match(" [.]/usr/${path}( |\n)")
  endforeach()
  run("${DPKG_DEB}" -x "${deb}" "${WORK_DIR}/root")
  run("${DPKG_DEB}" -f "${deb}" Depends)
  set(output "${output}" PARENT_SCOPE)
endfunction()

expect_contents(libforetoken${SOVERSION} ${LIBDIR}/libforetoken.so.${SOVERSION} ${DATADIR}/foretoken/models/tiny-dense/config.json)
expect_match("libc6 ")
expect_contents(libforetoken-dev include/foretoken.h ${LIBDIR}/libforetoken.so ${LIBDIR}/pkgconfig/foretoken.pc
  ${LIBDIR}/cmake/foretoken/foretokenConfig.cmake)
expect_match("libforetoken${SOVERSION} [(]= ${VERSION}[)]")
expect_contents(foretoken ${BINDIR}/foretoken ${MANDIR}/man1/foretoken.1 ${DATADIR}/bash-completion/completions/foretoken)
expect_match("libforetoken${SOVERSION} [(]= ${VERSION}[)]")
expect_match("libc6 ")

file(GLOB archive "${WORK_DIR}/*.tar.gz")
file(ARCHIVE_EXTRACT INPUT "${archive}" DESTINATION "${WORK_DIR}/archive")
file(GLOB unpacked "${WORK_DIR}/archive/*")
foreach(root IN ITEMS "${WORK_DIR}/root/usr" "${unpacked}")
  run(${CMAKE_COMMAND} -E env --unset=FORETOKEN_MODELS "${root}/${BINDIR}/foretoken"
      generate --backend cpu --token-ids 1,2,3 --max-tokens 4 --json)
  expect_match("\"model\": *\"${root}/${DATADIR}/foretoken/models/tiny-dense\"")
endforeach()
