# What a user may choose at configure time.
include(CMakeDependentOption)

option(FORETOKEN_BUILD_TESTS "Build the tests and benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(FORETOKEN_FAULTS "Compile the fault switches that tests use to prove that they can fail" OFF)
option(FORETOKEN_WERROR "Treat warnings as errors" OFF)
set(FORETOKEN_SANITIZE "" CACHE STRING "Sanitizers for every target: address,undefined or thread")
