#include "core/ops/mtp_input.h"

#include <string>

#include "core/error.h"
#include "core/ops/activations.h"

namespace foretoken {

const OpSchema& MtpInput::schema() {
  static const OpSchema schema = OpSchema("mtp_input")
                                     .in("ids", {"T"}, kI32Only)
                                     .in("table", {"V", "H"}, kActivationDtypes)
                                     .in("hidden", {"N", "H"}, kActivationDtypes)
                                     .strided()
                                     .in("hidden_rows", {"T"}, kI32Only)
                                     .optional()
                                     .in("embedding_norm", {"H"}, kF32Only)
                                     .in("hidden_norm", {"H"}, kF32Only)
                                     .out("out", {"T", "2*H"}, kActivationDtypes)
                                     .strided()
                                     .tolerance(DType::kF32, 1e-5)
                                     .tolerance(DType::kBF16, 1e-2);
  return schema;
}

void MtpInput::validate() const {
  if (hidden_rows || hidden.dim(0) == ids.dim(0)) return;
  throw Error(ErrorCode::kInvalidArgument, {.what = "mtp_input: rows of hidden without hidden_rows",
                                            .expected = std::to_string(ids.dim(0)) + ", one for each id",
                                            .got = std::to_string(hidden.dim(0))});
}

}  // namespace foretoken
