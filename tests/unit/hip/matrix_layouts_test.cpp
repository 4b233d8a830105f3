// The layouts of matrix instructions, multiplied by as the instructions are documented: of AMD in the guides to the instruction
// sets of CDNA 2 and 3, RDNA 3 and RDNA 4, whose tables AMD's matrix instruction calculator prints.
#include "backends/hip/kernels/matrix_layouts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace foretoken::hip {
namespace {

constexpr uint32_t kRows = 64;  // of either operand of a tile
constexpr uint32_t kMatrixDepth = 16;

using Lane = std::vector<float>;
using Wave = std::vector<Lane>;  // registers of each lane, by element

/// What one instruction reads and writes, as documented: element `e` of a lane is (row, k), result `i` is (row, column).
struct Place {
  uint32_t row;
  uint32_t k;
};

/// D += A B^T with a wave's registers. kElements of either operand per lane.
struct Mfma16x16x16 {
  static constexpr uint32_t kElements = 4;
  static Place operand(uint32_t lane, uint32_t e) { return {lane % 16, lane / 16 * 4 + e}; }
  static Place result(uint32_t lane, uint32_t i) { return {lane / 16 * 4 + i, lane % 16}; }
};
struct WmmaOfGfx11 {
  static constexpr uint32_t kElements = 16;
  static Place operand(uint32_t lane, uint32_t e) { return {lane % 16, e}; }
  static Place result(uint32_t lane, uint32_t i) { return {2 * i + lane / 16, lane % 16}; }
};
struct WmmaOfGfx12 {
  static constexpr uint32_t kElements = 8;
  static Place operand(uint32_t lane, uint32_t e) { return {lane % 16, e / 4 * 8 + lane / 16 * 4 + e % 4}; }
  static Place result(uint32_t lane, uint32_t i) { return {lane / 16 * 8 + i, lane % 16}; }
};

/// The matrix that a wave holds one operand of. Elements that several lanes hold must be the same in each.
template <class Instruction>
std::vector<float> matrix_of(const Wave& wave) {
  std::vector<float> matrix(16 * kMatrixDepth);
  std::vector<bool> is_there(matrix.size());
  for (uint32_t lane = 0; lane < wave.size(); ++lane) {
    for (uint32_t e = 0; e < Instruction::kElements; ++e) {
      const auto [row, k] = Instruction::operand(lane, e);
      const size_t at = row * kMatrixDepth + k;
      EXPECT_TRUE(!is_there[at] || matrix[at] == wave[lane][e]) << "two lanes differ in row " << row << ", element " << k;
      matrix[at] = wave[lane][e];
      is_there[at] = true;
    }
  }
  EXPECT_EQ(std::ranges::count(is_there, false), 0) << "the documented layout does not cover the matrix";
  return matrix;
}

template <class Instruction>
void multiply(Wave& results, const Wave& a, const Wave& b) {
  const std::vector<float> rows = matrix_of<Instruction>(a);
  const std::vector<float> columns = matrix_of<Instruction>(b);
  for (uint32_t lane = 0; lane < results.size(); ++lane) {
    for (uint32_t i = 0; i < results[lane].size(); ++i) {
      const auto [row, column] = Instruction::result(lane, i);
      for (uint32_t k = 0; k < kMatrixDepth; ++k) {
        results[lane][i] += rows[row * kMatrixDepth + k] * columns[column * kMatrixDepth + k];
      }
    }
  }
}

/// Elements [first, first + count) of each lane.
Wave part(const Wave& wave, uint32_t first, uint32_t count) {
  Wave out;
  for (const Lane& lane : wave) out.emplace_back(lane.begin() + first, lane.begin() + first + count);
  return out;
}

/// mma.m16n8k16 over elements of two rows per lane, chunk by chunk as multiply_step hands them on.
void multiply_mma(Wave& results, const Wave& a, const Wave& b, uint32_t column_half, uint32_t k_half) {
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = i / 2 * 8 + lane / 4;
      const uint32_t column = lane % 4 * 2 + i % 2;
      float& sum = results[lane][column_half * 4 + i];
      for (uint32_t k = 0; k < kMatrixDepth; ++k) {
        // Element k of row r: register k / 8 (of two) of the rows' lane k % 8 / 2, half k % 2.
        const uint32_t element = k_half * 4 + k / 8 * 2 + k % 2;
        sum += a[row % 8 * 4 + k % 8 / 2][row / 8 * 8 + element] * b[column * 4 + k % 8 / 2][column_half * 8 + element];
      }
    }
  }
}

/// What multiply_step of kernels/matrix.h does with the operands of one step.
template <class Layout>
void step(Wave& results, const Wave& a, const Wave& b);
template <>
void step<MfmaLayout>(Wave& results, const Wave& a, const Wave& b) {
  multiply<Mfma16x16x16>(results, part(a, 0, 4), part(b, 0, 4));
  multiply<Mfma16x16x16>(results, part(a, 4, 4), part(b, 4, 4));
}
template <>
void step<WmmaLayout>(Wave& results, const Wave& a, const Wave& b) {
  multiply<WmmaOfGfx11>(results, a, b);
}
template <>
void step<SplitWmmaLayout>(Wave& results, const Wave& a, const Wave& b) {
  multiply<WmmaOfGfx12>(results, a, b);
}
template <>
void step<MmaLayout>(Wave& results, const Wave& a, const Wave& b) {
  for (uint32_t half = 0; half < 2; ++half) {
    multiply_mma(results, a, b, half, 0);
    multiply_mma(results, a, b, half, 1);
  }
}

template <class Layout>
class HipMatrixLayout : public testing::Test {
 protected:
  HipMatrixLayout() {
    std::minstd_rand random(7);
    std::uniform_int_distribution<int> number(-8, 8);
    for (float& element : matrix_) element = static_cast<float>(number(random));
    for (uint32_t row = 0; row < 2 * kRows; ++row) {
      for (uint32_t k = 0; k < kTileDepth; ++k) {
        stage_[chunk_place(row, k / kChunkElements) * kChunkElements + k % kChunkElements] = matrix_[row * kTileDepth + k];
      }
    }
  }

  /// What the lanes of a wave read of the rows from `first` on.
  [[nodiscard]] Wave operand(uint32_t first, uint32_t step_number) const {
    Wave wave(Layout::kWave);
    for (uint32_t lane = 0; lane < Layout::kWave; ++lane) {
      for (uint32_t c = 0; c < Layout::kChunks; ++c) {
        const uint32_t place =
            chunk_place(first + Layout::operand_row(lane, c), Layout::operand_chunk(lane, step_number, c)) * kChunkElements;
        wave[lane].insert(wave[lane].end(), stage_.begin() + place, stage_.begin() + place + kChunkElements);
      }
    }
    return wave;
  }
  [[nodiscard]] float product(uint32_t row, uint32_t column) const {
    float sum = 0.0F;
    for (uint32_t k = 0; k < kTileDepth; ++k) sum += matrix_[row * kTileDepth + k] * matrix_[column * kTileDepth + k];
    return sum;
  }

 private:
  std::vector<float> matrix_ = std::vector<float>(size_t{2} * kRows * kTileDepth);
  std::vector<float> stage_ = matrix_;
};

using Layouts = testing::Types<MfmaLayout, WmmaLayout, SplitWmmaLayout, MmaLayout>;
TYPED_TEST_SUITE(HipMatrixLayout, Layouts);

TYPED_TEST(HipMatrixLayout, BlocksAreMultipliedByTheDocumentedInstruction) {
  using Layout = TypeParam;
  for (uint32_t first_row = 0; first_row < kRows; first_row += kBlock) {
    for (uint32_t first_column = kRows; first_column < 2 * kRows; first_column += kBlock) {
      Wave results(Layout::kWave, Lane(Layout::kResults));
      for (uint32_t s = 0; s < Layout::kSteps; ++s) {
        step<Layout>(results, this->operand(first_row, s), this->operand(first_column, s));
      }
      std::set<std::pair<uint32_t, uint32_t>> places;
      for (uint32_t lane = 0; lane < Layout::kWave; ++lane) {
        for (uint32_t i = 0; i < Layout::kResults; ++i) {
          const uint32_t row = Layout::result_row(lane, i);
          const uint32_t column = Layout::result_column(lane, i);
          places.emplace(row, column);
          EXPECT_EQ(results[lane][i], this->product(first_row + row, first_column + column)) << row << ", " << column;
        }
      }
      EXPECT_EQ(places.size(), size_t{kBlock} * kBlock) << "a block's results are not all there";
    }
  }
}

/// Reads of 16 bytes are served eight lanes at a time, from 128 bytes of banks.
TYPED_TEST(HipMatrixLayout, NoTwoOfEightLanesReadTheSameBank) {
  using Layout = TypeParam;
  for (uint32_t lane = 0; lane < Layout::kWave; lane += 8) {
    for (uint32_t c = 0; c < Layout::kChunks; ++c) {
      std::set<uint32_t> banks;
      for (uint32_t i = 0; i < 8; ++i) {
        banks.insert(chunk_place(Layout::operand_row(lane + i, c), Layout::operand_chunk(lane + i, 0, c)) % 8);
      }
      EXPECT_EQ(banks.size(), 8U) << "lanes from " << lane;
    }
  }
}

}  // namespace
}  // namespace foretoken::hip
