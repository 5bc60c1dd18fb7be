// The one inner loop of the solvers: out[l] = min over k of in[k] + table[k][l].
#ifndef COLOSSAL_SEARCH_MINPLUS_H
#define COLOSSAL_SEARCH_MINPLUS_H

namespace colossal::search {

/// `table` is rows x cols, row-major. `out` is overwritten. No two of them may overlap.
void minPlus(const double *in, const double *table, int rows, int cols, double *out);

/// The same for `count` rows of `in` at once, at most kMinPlusRows, so that the table is read once for all.
/// Where nothing is allowed, what comes out is forbidden (isBig), but may be another number than minPlus
/// gives.
inline constexpr int kMinPlusRows = 4;
void minPlus(const double *in, const double *table, int rows, int cols, double *out, int count);

/// Index of the first least in[k] + row[k]; `low` receives the value.
int argMinSum(const double *in, const double *row, int count, double &low);

} // namespace colossal::search

#endif // COLOSSAL_SEARCH_MINPLUS_H
