# One target per folder, each with the project's warnings and language level and nothing global.

# foretoken_configure(<target>): language level, warnings, floating-point rules and sanitizers.
function(foretoken_configure target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  # -ffp-contract=off: fused multiply-add is written where it is wanted, so two instantiations of a kernel round alike.
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -ffp-contract=off)
  if(FORETOKEN_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(FORETOKEN_FAULTS)
    target_compile_definitions(${target} PRIVATE FORETOKEN_FAULTS=1)
  endif()
  if(FORETOKEN_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${FORETOKEN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${FORETOKEN_SANITIZE})
  endif()
endfunction()

# foretoken_library(<folder target> SOURCES ... [PUBLIC deps...] [PRIVATE deps...]): the library of one folder, alias foretoken::<name>.
function(foretoken_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(foretoken_${name} STATIC ${arg_SOURCES})
  add_library(foretoken::${name} ALIAS foretoken_${name})
  foretoken_configure(foretoken_${name})
  target_include_directories(foretoken_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_link_libraries(foretoken_${name} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
endfunction()
