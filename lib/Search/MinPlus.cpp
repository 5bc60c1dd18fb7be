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

COLOSSAL_CLONES static void minPlusBlock(const double *__restrict in, const double *__restrict table,
                                         int rows, int cols, double *__restrict out) {
  // A strip of columns stays in the nearest cache while all rows of the table pass.
  constexpr int kStrip = 512;
  for (int begin = 0; begin < cols; begin += kStrip) {
    int width = cols - begin < kStrip ? cols - begin : kStrip;
    double *__restrict a = out + begin, *__restrict b = a + cols, *__restrict c = b + cols,
                       *__restrict d = c + cols;
    for (int k = 0; k < rows; ++k) {
      const double *__restrict row = table + static_cast<long>(k) * cols + begin;
      double ka = in[k], kb = in[rows + k], kc = in[2 * rows + k], kd = in[3 * rows + k];
      for (int l = 0; l < width; ++l) {
        double cost = row[l];
        double sa = ka + cost, sb = kb + cost, sc = kc + cost, sd = kd + cost;
        a[l] = sa < a[l] ? sa : a[l];
        b[l] = sb < b[l] ? sb : b[l];
        c[l] = sc < c[l] ? sc : c[l];
        d[l] = sd < d[l] ? sd : d[l];
      }
    }
  }
}

void minPlus(const double *in, const double *table, int rows, int cols, double *out, int count) {
  static_assert(kMinPlusRows == 4, "minPlusBlock takes four rows");
  if (count < kMinPlusRows) {
    for (int n = 0; n < count; ++n)
      minPlus(in + static_cast<long>(n) * rows, table, rows, cols, out + static_cast<long>(n) * cols);
    return;
  }
  for (long l = 0; l < 4L * cols; ++l)
    out[l] = 4 * kBig;
  minPlusBlock(in, table, rows, cols, out);
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
