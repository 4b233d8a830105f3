# The library that users link, and what `cmake --install` puts where. Components: library (what programs need to run), development,
# tool, and static (the archives of all folders with their C++ headers), which is installed by name where there is a shared library.
include(CMakePackageConfigHelpers)

set(public_headers "${PROJECT_SOURCE_DIR}/speculative/c_api/include")
get_property(archives GLOBAL PROPERTY FORETOKEN_LIBRARIES)

# foretoken::foretoken: the shared library, or all static ones.
add_library(foretoken_static INTERFACE)
set_target_properties(foretoken_static PROPERTIES EXPORT_NAME foretoken)
target_link_libraries(foretoken_static INTERFACE ${archives})
if(FORETOKEN_SHARED)
  add_library(foretoken_shared SHARED $<TARGET_OBJECTS:foretoken_c_api>)
  add_library(foretoken::foretoken ALIAS foretoken_shared)
  foretoken_configure_link(foretoken_shared)
  # 0.x: a minor version may break callers.
  set(soversion ${PROJECT_VERSION_MAJOR})
  if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(soversion 0.${PROJECT_VERSION_MINOR})
  endif()
  set_target_properties(foretoken_shared PROPERTIES OUTPUT_NAME foretoken EXPORT_NAME foretoken LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION} SOVERSION ${soversion} LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/foretoken.map"
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${CMAKE_INSTALL_LIBDIR}")
  target_include_directories(foretoken_shared INTERFACE
    $<BUILD_INTERFACE:${public_headers}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(foretoken_shared INTERFACE cxx_std_20)  # of the C++ headers; projects in C do not notice
  target_link_libraries(foretoken_shared PRIVATE foretoken_c_api)
  target_link_options(foretoken_shared PRIVATE
    "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/foretoken.map" LINKER:--exclude-libs,ALL)
else()
  add_library(foretoken::foretoken ALIAS foretoken_static)
endif()

if(NOT FORETOKEN_INSTALL)
  return()
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/foretoken)
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/foretokenConfig.cmake.in" "${PROJECT_BINARY_DIR}/generated/foretokenConfig.cmake"
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/foretokenConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/generated/foretokenConfig.cmake" "${PROJECT_BINARY_DIR}/generated/foretokenConfigVersion.cmake"
  DESTINATION ${package_dir} COMPONENT development)
install(DIRECTORY "${public_headers}/" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)

# foretoken_install_pc(<name> COMPONENT ... [REQUIRES ...] LIBS ... CFLAGS ...): a file for pkg-config that may move with its tree.
function(foretoken_install_pc name)
  cmake_parse_arguments(arg "" "" "COMPONENT;REQUIRES;LIBS;CFLAGS" ${ARGN})
  file(RELATIVE_PATH FORETOKEN_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/.")
  string(REGEX REPLACE "/$" "" FORETOKEN_PC_PREFIX "${FORETOKEN_PC_PREFIX}")
  set(FORETOKEN_PC_NAME ${name})
  list(JOIN arg_REQUIRES ", " FORETOKEN_PC_REQUIRES)
  list(JOIN arg_CFLAGS " " FORETOKEN_PC_CFLAGS)
  if(FORETOKEN_SANITIZE)
    list(APPEND arg_LIBS -fsanitize=${FORETOKEN_SANITIZE})
  endif()
  list(JOIN arg_LIBS " " FORETOKEN_PC_LIBS)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/foretoken.pc.in" "${PROJECT_BINARY_DIR}/generated/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/generated/${name}.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${arg_COMPONENT})
endfunction()

set(static_pc foretoken)
if(FORETOKEN_SHARED)
  set(static_pc foretoken-static)
  install(TARGETS foretoken_shared EXPORT foretoken_shared
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
  install(EXPORT foretoken_shared NAMESPACE foretoken:: FILE foretokenSharedTargets.cmake
    DESTINATION ${package_dir} COMPONENT development)
  foretoken_install_pc(foretoken COMPONENT development LIBS -lforetoken CFLAGS -I\${includedir})
endif()

install(TARGETS foretoken_static EXPORT foretoken_static)
install(EXPORT foretoken_static NAMESPACE foretoken:: FILE foretokenStaticTargets.cmake
  DESTINATION ${package_dir} COMPONENT ${FORETOKEN_STATIC_COMPONENT})
install(FILES "${PROJECT_SOURCE_DIR}/cmake/FindOneDNN.cmake" DESTINATION ${package_dir} COMPONENT ${FORETOKEN_STATIC_COMPONENT})
list(TRANSFORM archives PREPEND -l OUTPUT_VARIABLE archive_flags)
set(onednn_flags "")
if(TARGET DNNL::dnnl)
  set(onednn_flags -ldnnl)
endif()
foretoken_install_pc(${static_pc} COMPONENT ${FORETOKEN_STATIC_COMPONENT}
  REQUIRES spdlog fmt libpcre2-8 libutf8proc
  LIBS -Wl,--start-group ${archive_flags} -Wl,--end-group ${onednn_flags} -lstdc++ -lm -lpthread -ldl
  CFLAGS -I\${includedir} -I\${includedir}/foretoken)

install(DIRECTORY "${PROJECT_SOURCE_DIR}/tests/data/tiny-dense" DESTINATION ${CMAKE_INSTALL_DATADIR}/foretoken/models COMPONENT library)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE-MIT" "${PROJECT_SOURCE_DIR}/LICENSE-APACHE"
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT library)
file(GLOB pages CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/*.md")
install(FILES "${PROJECT_SOURCE_DIR}/README.md" DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT development)

if(TARGET foretoken)
  set(man_page "${PROJECT_BINARY_DIR}/generated/foretoken.1")
  set(completion "${PROJECT_BINARY_DIR}/generated/foretoken.bash")
  add_custom_command(OUTPUT "${man_page}" COMMAND foretoken help --man > "${man_page}" DEPENDS foretoken VERBATIM)
  add_custom_command(OUTPUT "${completion}" COMMAND foretoken help --completion bash > "${completion}" DEPENDS foretoken VERBATIM)
  add_custom_target(foretoken_pages ALL DEPENDS "${man_page}" "${completion}")
  install(TARGETS foretoken RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tool)
  install(FILES "${man_page}" DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tool)
  install(FILES "${completion}" DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME foretoken COMPONENT tool)
endif()
