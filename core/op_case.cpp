#include "core/op_case.h"

#include <utility>

#include "core/error.h"

namespace foretoken::fill {

Fill uniform(double low, double high) {
  return [low, high](std::mt19937_64& generator, std::span<double> values) {
    std::uniform_real_distribution<double> distribution(low, high);
    for (double& value : values) value = distribution(generator);
  };
}

Fill normal(double sigma) {
  return [sigma](std::mt19937_64& generator, std::span<double> values) {
    std::normal_distribution<double> distribution(0.0, sigma);
    for (double& value : values) value = distribution(generator);
  };
}

Fill constant(double value) {
  return [value](std::mt19937_64&, std::span<double> values) {
    for (double& element : values) element = value;
  };
}

Fill integers(int64_t low, int64_t high) {
  return [low, high](std::mt19937_64& generator, std::span<double> values) {
    std::uniform_int_distribution<int64_t> distribution(low, high);
    for (double& value : values) value = static_cast<double>(distribution(generator));
  };
}

Fill values(std::vector<double> list) {
  return [list = std::move(list)](std::mt19937_64&, std::span<double> values) {
    if (values.size() != list.size()) {
      throw Error(ErrorCode::kInternalError, {.what = "a test case lists the wrong number of values",
                                              .expected = std::to_string(values.size()),
                                              .got = std::to_string(list.size())});
    }
    for (size_t i = 0; i < list.size(); ++i) values[i] = list[i];
  };
}

}  // namespace foretoken::fill
