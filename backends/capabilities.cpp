#include "backends/capabilities.h"

namespace foretoken {

WeightFormatSupport Capabilities::weight_format(WeightFormat format) const {
  for (const WeightFormatSupport& support : weight_formats) {
    if (support.format == format) return support;
  }
  const Availability no = Availability::no("not implemented by this backend");
  return {.format = format, .storable = no, .fast = no, .native = no};
}

}  // namespace foretoken
