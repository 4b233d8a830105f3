// Foretoken: exact speculative decoding with multi-token-prediction heads. The whole C++ API: header-only over foretoken.h, so a
// program needs no C++ ABI in common with the library. foretoken/status.h has the rules of all calls.
#pragma once

#include "foretoken/device.hpp"
#include "foretoken/drafter.hpp"
#include "foretoken/engine.hpp"
#include "foretoken/error.hpp"
#include "foretoken/target.hpp"
