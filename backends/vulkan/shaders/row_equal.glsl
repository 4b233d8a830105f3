// Counting along the tokens of a row that have one logit.
#ifndef FORETOKEN_ROW_EQUAL_GLSL
#define FORETOKEN_ROW_EQUAL_GLSL

#include "backends/vulkan/shaders/row.glsl"

float counted_logit;

uint64_t lane_amounts(uint64_t x, uint begin, uint end, uint lane) {
  uint64_t sum = 0;
  for (uint v = begin + lane; v < end; v += kPartLanes) sum += logit_of(x, v) == counted_logit ? 1ul : 0ul;
  return sum;
}

// The index of the `count`-th (from 1) token whose logit equals `last`.
uint index_of_equal(uint64_t x, uint n, float last, uint64_t count) {
  counted_logit = last;
  return draw_index(x, n, count - 1);
}

#endif
