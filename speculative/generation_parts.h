// The parts that the generation engine works with.
#pragma once

#include "models/tokenizer.h"
#include "speculative/draft_proposer.h"
#include "speculative/target_runner.h"

namespace foretoken {

/// All must outlive the engine, and work on `stream`.
struct GenerationParts {
  GpuBackend* backend = nullptr;
  Stream* stream = nullptr;
  TargetRunner* runner = nullptr;
  DraftProposer* proposer = nullptr;     // null: plain decoding only
  const Tokenizer* tokenizer = nullptr;  // null: token ids only
  TargetRunner* shadow = nullptr;        // checks the runner: a second one that only ever takes plain steps of one row
};

}  // namespace foretoken
