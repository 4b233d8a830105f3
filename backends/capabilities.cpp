#include "backends/capabilities.h"

#include "core/error.h"

namespace foretoken {

WeightFormatSupport Capabilities::weight_format(WeightFormat format) const {
  for (const WeightFormatSupport& support : weight_formats) {
    if (support.format == format) return support;
  }
  const Availability no = Availability::no("not implemented by this backend");
  return {.format = format, .storable = no, .fast = no, .native = no};
}

std::string Capabilities::usable_formats() const {
  std::string usable;
  for (const WeightFormatSupport& support : weight_formats) {
    if (support.storable) usable.append(usable.empty() ? "" : ", ").append(to_string(support.format));
  }
  return usable.empty() ? "none: this device stores no weights" : usable;
}

void Capabilities::require_storable(WeightFormat format, std::string_view what, std::string_view where) const {
  const Availability storable = weight_format(format).storable;
  if (storable) return;
  throw Error(ErrorCode::kUnsupported,
              {.what = std::string(what) + " is in a format that " + device_name + " cannot use: " + storable.reason(),
               .where = std::string(where),
               .expected = usable_formats(),
               .got = std::string(to_string(format))});
}

}  // namespace foretoken
