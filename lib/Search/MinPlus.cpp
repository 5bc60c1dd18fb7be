// Compiled once for the baseline processor and once for AVX2, chosen when the program starts; min and add
// give the same bits in both.
#include "MinPlus.h"

#include "Core.h"

namespace colossal::search {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__)
#define COLOSSAL_CLONES __attribute__((target_clones("avx2", "default"), optimize("O3")))
#else
#define COLOSSAL_CLONES
#endif

COLOSSAL_CLONES void minPlus(const double *__restrict in, const double *__restrict table, int rows, int cols,
                             double *__restrict out) {
  for (int l = 0; l < cols; ++l)
    out[l] = 4 * kBig;
  // Rows that are forbidden are passed over, unless all are.
  bool all = true;
  for (int k = 0; k < rows; ++k)
    all &= in[k] >= kBig / 2;
  for (int k = 0; k < rows; ++k, table += cols) {
    double a = in[k];
    if (a >= kBig / 2 && !all)
      continue;
    for (int l = 0; l < cols; ++l) {
      double sum = a + table[l];
      out[l] = sum < out[l] ? sum : out[l];
    }
  }
}

int argMinSum(const double *in, const double *row, int count, double &low) {
  int at = 0;
  low = in[0] + row[0];
  for (int k = 1; k < count; ++k) {
    double sum = in[k] + row[k];
    if (sum < low) {
      low = sum;
      at = k;
    }
  }
  return at;
}

} // namespace colossal::search
