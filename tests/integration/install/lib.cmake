# Common to the tests of installations.

# run(<command>...): sets `output` to its stdout; whatever fails ends the test.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${status}\n${output}${errors}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# run_failing(<text> <command>...): it must fail, and say so.
function(run_failing text)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  string(FIND "${errors}" "${text}" named)
  if(status EQUAL 0 OR named EQUAL -1)
    message(FATAL_ERROR "expected an error with '${text}', got status ${status}\n${output}${errors}")
  endif()
endfunction()

function(expect_match pattern)
  if(NOT output MATCHES "${pattern}")
    message(FATAL_ERROR "expected a match of '${pattern}', got:\n${output}")
  endif()
endfunction()

# expect_files(<folder> <glob>...): each of them matches a file.
function(expect_files folder)
  foreach(pattern IN LISTS ARGN)
    file(GLOB found "${folder}/${pattern}")
    if(NOT found)
      message(FATAL_ERROR "${pattern} is not in ${folder}")
    endif()
  endforeach()
endfunction()

# expect_no_files(<folder> <glob>...): none of them does.
function(expect_no_files folder)
  foreach(pattern IN LISTS ARGN)
    file(GLOB_RECURSE found "${folder}/${pattern}")
    if(found)
      message(FATAL_ERROR "not expected in ${folder}: ${found}")
    endif()
  endforeach()
endfunction()

# build_consumer(<name> <prefix>): the project beside this file, against an installation; its program is WORK_DIR/<name>/consumer.
function(build_consumer name prefix)
  run(${CMAKE_COMMAND} -S "${CMAKE_CURRENT_LIST_DIR}/${name}" -B "${WORK_DIR}/${name}" -G "${GENERATOR}"
      -D CMAKE_CXX_COMPILER=${CXX_COMPILER} -D CMAKE_BUILD_TYPE=${BUILD_TYPE} -D CMAKE_PREFIX_PATH=${prefix}
      -D FORETOKEN_VERSION=${VERSION} -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF --no-warn-unused-cli)
  run(${CMAKE_COMMAND} --build "${WORK_DIR}/${name}")
endfunction()
