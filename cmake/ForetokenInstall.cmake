# The umbrella target, and what `cmake --install` puts where: libraries, headers, the tool, its bundled checkpoint, licences, a CMake package.
include(CMakePackageConfigHelpers)

# foretoken::foretoken: every library of the project, for those who do not choose among them.
get_property(libraries GLOBAL PROPERTY FORETOKEN_LIBRARIES)
add_library(foretoken_all INTERFACE)
add_library(foretoken::foretoken ALIAS foretoken_all)
set_target_properties(foretoken_all PROPERTIES EXPORT_NAME foretoken)
target_link_libraries(foretoken_all INTERFACE ${libraries})

if(NOT FORETOKEN_INSTALL)
  return()
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/foretoken)
install(TARGETS foretoken_all EXPORT foretoken)
install(EXPORT foretoken NAMESPACE foretoken:: FILE foretokenTargets.cmake DESTINATION ${package_dir})

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/foretokenConfig.cmake.in" "${PROJECT_BINARY_DIR}/generated/foretokenConfig.cmake"
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# 0.x: a minor version may break callers.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/foretokenConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/generated/foretokenConfig.cmake"
  "${PROJECT_BINARY_DIR}/generated/foretokenConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/FindOneDNN.cmake"
  DESTINATION ${package_dir})

if(TARGET foretoken)
  install(TARGETS foretoken RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/tests/data/tiny-dense" DESTINATION ${CMAKE_INSTALL_DATADIR}/foretoken/models)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE-MIT" "${PROJECT_SOURCE_DIR}/LICENSE-APACHE" DESTINATION ${CMAKE_INSTALL_DOCDIR})
