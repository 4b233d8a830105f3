// Deterministic mutations of an input: the same seed makes the same sequence on every machine.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace foretoken::fuzz {

class Mutator {
 public:
  /// `words` are pieces that the parser under test knows; they are inserted and put in place of others.
  Mutator(uint64_t seed, std::vector<std::string> words) : generator_(seed), words_(std::move(words)) {}

  /// `input` after one to six edits: bytes flipped, ranges cut, doubled or moved, words inserted, numbers replaced.
  [[nodiscard]] std::string mutate(std::string_view input);
  /// Uniform in [0, bound); 0 when the bound is 0.
  [[nodiscard]] size_t below(size_t bound) { return bound == 0 ? 0 : generator_() % bound; }

 private:
  void edit(std::string& text);
  void replace_number(std::string& text);

  std::mt19937_64 generator_;
  std::vector<std::string> words_;
};

}  // namespace foretoken::fuzz
