// Rows that are normed by one work group each (backends/gpu/norm.inl).
struct RmsNormParams {
  uint64_t x;
  uint64_t residual;
  uint64_t weight;
  uint64_t result;
  uint64_t x_stride;
  uint64_t residual_stride;
  uint64_t out_stride;
  uint hidden_size;
  float eps;
  uint x_is_bf16;
  uint residual_is_bf16;
  uint out_is_bf16;
  uint reserved;
};

const uint kNormHeld = 10;  // elements of a row that a thread keeps: longer rows are read twice

float norm_factor(float sum, uint size, float eps) { return 1.0 / sqrt(sum / float(size) + eps); }

void store_norm(RmsNormParams p, uint h, float value, float factor, float weight) {
  precise const float scaled = value * factor * (1.0 + weight);
  store_float(p.result, gl_WorkGroupID.x * p.out_stride + h, scaled, p.out_is_bf16);
}

void store_residual(RmsNormParams p, uint h, float value) {
  if (p.residual != 0) store_float(p.residual, gl_WorkGroupID.x * p.residual_stride + h, value, p.residual_is_bf16);
}

float norm_input(RmsNormParams p, uint64_t row, uint h) {
  float value = load_float(p.x, row * p.x_stride + h, p.x_is_bf16);
  if (p.residual != 0) value += load_float(p.residual, gl_WorkGroupID.x * p.residual_stride + h, p.residual_is_bf16);
  return value;
}

// Row gl_WorkGroupID.x of the result, from row `row` of x; NaN where that is no row of x.
void norm_row(RmsNormParams p, uint64_t row, bool has_row) {
  const uint thread = thread_index();
  if (!has_row) {
    for (uint h = thread; h < p.hidden_size; h += kThreads) store_norm(p, h, kNan, 1.0, 0.0);
    return;
  }
  float held[kNormHeld];
  float sum = 0.0;
  [[unroll]] for (uint i = 0; i < kNormHeld; ++i) {
    const uint h = thread + i * kThreads;
    held[i] = h < p.hidden_size ? norm_input(p, row, h) : 0.0;
    sum = fma(held[i], held[i], sum);
  }
  for (uint h = thread + kNormHeld * kThreads; h < p.hidden_size; h += kThreads) {
    const float value = norm_input(p, row, h);
    store_residual(p, h, value);
    sum = fma(value, value, sum);
  }
  const float factor = norm_factor(group_sum(sum), p.hidden_size, p.eps);
  [[unroll]] for (uint i = 0; i < kNormHeld; ++i) {
    const uint h = thread + i * kThreads;
    if (h >= p.hidden_size) continue;
    store_residual(p, h, held[i]);
    store_norm(p, h, held[i], factor, load_f32(p.weight, h));
  }
  for (uint h = thread + kNormHeld * kThreads; h < p.hidden_size; h += kThreads) {
    const float value = p.residual != 0
                            ? load_float(p.residual, gl_WorkGroupID.x * p.residual_stride + h, p.residual_is_bf16)
                            : load_float(p.x, row * p.x_stride + h, p.x_is_bf16);
    store_norm(p, h, value, factor, load_f32(p.weight, h));
  }
}
