# One target per folder, each with the project's warnings and language level and nothing global.
include(GNUInstallDirs)

# Where loadable backends lie, under the build folder as under the install prefix.
set(FORETOKEN_MODULE_DIR lib/foretoken)

# Where static libraries and their headers are installed by name only, because there is a shared library.
set(FORETOKEN_STATIC_COMPONENT static)
if(FORETOKEN_SHARED)
  list(APPEND FORETOKEN_STATIC_COMPONENT EXCLUDE_FROM_ALL)
endif()

# foretoken_configure_link(<target>): linker, and sanitizers, which whoever links the target needs too.
function(foretoken_configure_link target)
  if(FORETOKEN_SANITIZE)
    target_link_options(${target} PUBLIC -fsanitize=${FORETOKEN_SANITIZE})
  endif()
  if(FORETOKEN_LINKER_MOLD)
    target_link_options(${target} PRIVATE -fuse-ld=mold)
  endif()
endfunction()

# foretoken_configure(<target>): language level, warnings, floating-point rules, sanitizers and linker.
function(foretoken_configure target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  # -ffp-contract=off: fused multiply-add is written where it is wanted, so two instantiations of a kernel round alike.
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -ffp-contract=off)
  # GCC 12 reports overlaps in std::string's operator+ that cannot be (its bug 105651).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
  if(FORETOKEN_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(FORETOKEN_FAULTS)
    target_compile_definitions(${target} PUBLIC FORETOKEN_FAULTS=1)
  endif()
  if(FORETOKEN_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${FORETOKEN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  endif()
  foretoken_configure_link(${target})
endfunction()

# foretoken_library(<folder target> SOURCES ... [PUBLIC deps...] [PRIVATE deps...]): the library of one folder, alias foretoken::<name>.
# Outside apps/ and tests/ it joins the export set; the headers of the folder are installed, those of backends/<name>/ are not.
function(foretoken_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(foretoken_${name} STATIC ${arg_SOURCES})
  add_library(foretoken::${name} ALIAS foretoken_${name})
  set_target_properties(foretoken_${name} PROPERTIES EXPORT_NAME ${name})
  foretoken_configure(foretoken_${name})
  target_include_directories(foretoken_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/foretoken>)
  target_link_libraries(foretoken_${name} PUBLIC ${arg_PUBLIC})
  foreach(dependency IN LISTS arg_PRIVATE)
    foretoken_is_header_only(${dependency} header_only)
    if(header_only)  # of no use to whoever links an installed library, who need not have it
      target_link_libraries(foretoken_${name} PRIVATE $<BUILD_INTERFACE:${dependency}>)
    else()
      target_link_libraries(foretoken_${name} PRIVATE ${dependency})
    endif()
  endforeach()

  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  if(folder MATCHES "^(apps|tests)(/|$)")
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY FORETOKEN_LIBRARIES foretoken_${name})
  if(FORETOKEN_INSTALL)
    install(TARGETS foretoken_${name} EXPORT foretoken_static
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${FORETOKEN_STATIC_COMPONENT})
    if(NOT folder MATCHES "^(backends/|speculative/c_api)")
      foretoken_install_headers(${folder})
    endif()
  endif()
endfunction()

# foretoken_backend_module(<name> SOURCES ... [PRIVATE deps...]): a loadable backend, libforetoken_backend_<name>.so in lib/foretoken/.
function(foretoken_backend_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;PRIVATE" ${ARGN})
  add_library(foretoken_backend_${name} MODULE ${arg_SOURCES})
  foretoken_configure(foretoken_backend_${name})
  set_target_properties(foretoken_backend_${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(foretoken_backend_${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(foretoken_backend_${name} PRIVATE ${arg_PRIVATE})
  target_link_options(foretoken_backend_${name} PRIVATE LINKER:--exclude-libs,ALL)  # its copy of core is its own
  if(FORETOKEN_INSTALL)
    install(TARGETS foretoken_backend_${name} LIBRARY DESTINATION ${FORETOKEN_MODULE_DIR} COMPONENT library)
  endif()
endfunction()

# foretoken_is_header_only(<target> <out>): whether an imported target brings include directories and nothing to link.
function(foretoken_is_header_only target out)
  set(${out} FALSE PARENT_SCOPE)
  if(TARGET ${target})
    get_target_property(imported ${target} IMPORTED)
    get_target_property(type ${target} TYPE)
    get_target_property(linked ${target} INTERFACE_LINK_LIBRARIES)
    if(imported AND type STREQUAL "INTERFACE_LIBRARY" AND NOT linked)
      set(${out} TRUE PARENT_SCOPE)
    endif()
  endif()
endfunction()

# foretoken_install_headers(<folder>): its headers, and those of core/ops, under include/foretoken/<folder>, once per folder.
function(foretoken_install_headers folder)
  get_property(done GLOBAL PROPERTY FORETOKEN_HEADER_FOLDERS)
  if(folder IN_LIST done)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY FORETOKEN_HEADER_FOLDERS ${folder})
  foreach(part IN ITEMS ${folder} ${folder}/ops)
    file(GLOB headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${part}/*.h")
    if(headers)
      install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/foretoken/${part} COMPONENT ${FORETOKEN_STATIC_COMPONENT})
    endif()
  endforeach()
endfunction()

# foretoken_build_info(<target>): gives the target "foretoken_build_info.h", which holds the version and where data lies.
function(foretoken_build_info target)
  foreach(from IN ITEMS BIN LIB)
    file(RELATIVE_PATH FORETOKEN_MODELS_FROM_${from} "/${CMAKE_INSTALL_${from}DIR}" "/${CMAKE_INSTALL_DATADIR}/foretoken/models")
    file(RELATIVE_PATH FORETOKEN_MODULES_FROM_${from} "/${CMAKE_INSTALL_${from}DIR}" "/${FORETOKEN_MODULE_DIR}")
  endforeach()
  configure_file("${PROJECT_SOURCE_DIR}/cmake/foretoken_build_info.h.in" "${PROJECT_BINARY_DIR}/generated/foretoken_build_info.h" @ONLY)
  target_include_directories(${target} PRIVATE "${PROJECT_BINARY_DIR}/generated")
endfunction()
