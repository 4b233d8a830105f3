# Every outside library, found in one place. docs/design.md says why each was chosen.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Boost 1.74 CONFIG REQUIRED COMPONENTS program_options container)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)

# DNNL::dnnl exists when oneDNN is wanted and there; the CPU backend asks `if(TARGET DNNL::dnnl)`.
if(FORETOKEN_ONEDNN STREQUAL "ON")
  find_package(OneDNN REQUIRED)
elseif(FORETOKEN_ONEDNN STREQUAL "AUTO")
  find_package(OneDNN)
endif()

if(FORETOKEN_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
endif()
