// Argmax and log-sum-exp of a row, put together from parts.
#pragma once

#include "backends/gpu/numeric.inl"

namespace foretoken::gpu {

/// What a row has seen so far: the best logit, and sum exp(logit - maximum) over all.
struct RowBest {
  Candidate best;
  float maximum;
  float sum;

  FORETOKEN_DEVICE static RowBest nothing() { return {{0.0F, -1}, -INFINITY, 0.0F}; }
  FORETOKEN_DEVICE void add(float other_maximum, float other_sum) {
    const float larger = fmaxf(maximum, other_maximum);
    // Where nothing was seen the maximum is -inf, and exp(-inf - -inf) would be NaN.
    const float mine = maximum == larger ? sum : sum * expf(maximum - larger);
    const float theirs = other_maximum == larger ? other_sum : other_sum * expf(other_maximum - larger);
    sum = mine + theirs;
    maximum = larger;
  }
};

}  // namespace foretoken::gpu
