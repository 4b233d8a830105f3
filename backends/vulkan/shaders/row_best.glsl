// Argmax and log-sum-exp of a row, put together from parts. Logits are put together per invocation first.
#ifndef FORETOKEN_ROW_BEST_GLSL
#define FORETOKEN_ROW_BEST_GLSL

// What a row has seen so far: the best logit, and sum exp(logit - maximum) over all.
struct RowBest {
  Candidate best;
  float maximum;
  float sum;
};

RowBest nothing_seen() { return RowBest(Candidate(0.0, -1), -kInfinity, 0.0); }

// The sum `sum` of exponentials relative to `maximum`, relative to `larger`. Where nothing was seen the maximum is -inf, and
// exp(-inf - -inf) would be NaN.
float rescaled(float sum, float maximum, float larger) {
  return maximum == larger ? sum : sum * exponential(maximum - larger);
}

// Both together. Only b.maximum may be NaN, that of a NaN logit: it is not taken, but makes the sum NaN.
RowBest joined(RowBest a, RowBest b) {
  const float larger = b.maximum > a.maximum ? b.maximum : a.maximum;
  precise const float sum = rescaled(a.sum, a.maximum, larger) + rescaled(b.sum, b.maximum, larger);
  return RowBest(better(a.best, b.best), larger, sum);
}

// One more logit, of column `index`.
RowBest with_logit(RowBest row, float logit, int index) {
  return joined(row, RowBest(candidate_of(logit, index), logit, 1.0));
}

// What the lanes of a logical warp have seen; each gets it. All invocations of the work group call this.
RowBest joined_over_lanes(RowBest row) {
  const float largest = lane_max(row.maximum);
  precise const float sum = rescaled(row.sum, row.maximum, largest);
  return RowBest(lane_best(row.best), largest, lane_sum(sum));
}

#endif
