#include "backends/capabilities.h"

#include <algorithm>

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

DType Capabilities::activation_dtype(std::optional<DType> asked) const {
  if (activation_dtypes.empty() && asked.value_or(DType::kF32) == DType::kF32) return DType::kF32;
  if (!asked) return activation_dtypes.front();
  if (std::ranges::find(activation_dtypes, *asked) != activation_dtypes.end()) return *asked;
  std::string known = activation_dtypes.empty() ? std::string(to_string(DType::kF32)) : "";
  for (const DType dtype : activation_dtypes) known.append(known.empty() ? "" : ", ").append(to_string(dtype));
  throw Error(ErrorCode::kUnsupported, {.what = device_name + " has no linear layers for such activations",
                                        .expected = known,
                                        .got = std::string(to_string(*asked))});
}

}  // namespace foretoken
