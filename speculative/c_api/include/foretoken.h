/* Foretoken: exact speculative decoding with multi-token-prediction heads. The whole C API; foretoken/status.h has its rules. */
#ifndef FORETOKEN_H
#define FORETOKEN_H

#include "foretoken/device.h"
#include "foretoken/drafter.h"
#include "foretoken/engine.h"
#include "foretoken/status.h"
#include "foretoken/target.h"

#endif
