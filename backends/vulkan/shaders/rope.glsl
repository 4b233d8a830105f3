// A head in shared memory, and its rotation.
const uint kMaxHeadDim = 512;

shared float head[kMaxHeadDim];

// Element d of the head after the rotation.
float rotated(uint d, uint64_t cos_sin, uint rotary_dim) {
  const uint half_dim = rotary_dim / 2;
  if (d >= rotary_dim) return head[d];
  const uint i = d % half_dim;
  const float cosine = load_f32(cos_sin, i);
  const float sine = load_f32(cos_sin, half_dim + i);
  precise const float turned = head[d < half_dim ? d + half_dim : d - half_dim] * sine;
  return fma(head[d], cosine, d < half_dim ? -turned : turned);
}
