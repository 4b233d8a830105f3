// The structures of backends/gpu/linear_params.h.
#ifndef FORETOKEN_LINEAR_PARAMS_GLSL
#define FORETOKEN_LINEAR_PARAMS_GLSL

// Weight rows (columns of the result) that a logical warp takes together.
const uint kWarpColumns = 4;

// A weight, or a stack of them.
struct WeightParams {
  uint64_t codes;
  uint64_t scale;
  uint64_t global_scale;
  uint64_t codes_stride;
  uint64_t scale_stride;
  uint64_t global_scale_stride;
  uint scale_columns;
  uint block_shift;
  uint rows_per_global;
  uint scale_is_bf16;
};

struct LinearParams {
  WeightParams weight;
  WeightParams second;
  uint64_t x;
  uint64_t out_;
  uint64_t x_stride;
  uint64_t out_stride;
  uint num_rows;
  uint in_features;
  uint out_features;
  uint num_slices;
  uint x_is_bf16;
  uint out_is_bf16;
};

struct LinearArgmaxParams {
  WeightParams weight;
  uint64_t x;
  uint64_t part_max;
  uint64_t part_id;
  uint64_t part_sum;
  uint64_t x_stride;
  uint num_rows;
  uint in_features;
  uint out_features;
  uint num_slices;
  uint x_is_bf16;
  uint num_parts;
  uint tiles_per_part;
  uint reserved;
};

struct LinearArgmaxCombineParams {
  uint64_t part_max;
  uint64_t part_id;
  uint64_t part_sum;
  uint64_t token_map;
  uint64_t token_ids;
  uint64_t logprobs;
  uint num_parts;
  uint reserved;
};

struct MoeExpertsParams {
  WeightParams weight;
  uint64_t x;
  uint64_t expert_offsets;
  uint64_t expert_pairs;
  uint64_t out_;
  uint64_t x_stride;
  uint pairs_per_row;
  uint num_experts;
  uint in_features;
  uint out_features;
  uint num_slices;
  uint x_is_bf16;
  uint out_is_bf16;
  uint reserved;
};

#endif
