// Kernels of the test plans, with the signature of generated ones: tiles [begin, end) of a launch.
#include <stdint.h>

// out[i] = x[i] * params[0] + params[1]; a tile is 16 elements of params[2].
void scale(void *const *buffers, const int64_t *params, int64_t begin, int64_t end) {
  const float *x = buffers[0];
  float *out = buffers[1];
  int64_t stop = end * 16 < params[2] ? end * 16 : params[2];
  for (int64_t i = begin * 16; i < stop; ++i)
    out[i] = x[i] * (float)params[0] + (float)params[1];
}

// out[t] += x[t] for each tile t of one element.
void accumulate(void *const *buffers, const int64_t *params, int64_t begin, int64_t end) {
  const float *x = buffers[0];
  float *out = buffers[1];
  for (int64_t i = begin; i < end; ++i)
    out[i] += x[i];
}

// out[t] = t + the first bytes of scratch after writing them: fails if threads share scratch.
void useScratch(void *const *buffers, const int64_t *params, int64_t begin, int64_t end) {
  float *out = buffers[0];
  volatile float *scratch = buffers[1];
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t j = 0; j < params[0]; ++j)
      scratch[j] = (float)i;
    float sum = 0;
    for (int64_t j = 0; j < params[0]; ++j)
      sum += scratch[j];
    out[i] = sum;
  }
}

// Does not end on the rank whose coordinate is given as params[0] = params[1].
void hang(void *const *buffers, const int64_t *params, int64_t begin, int64_t end) {
  volatile int forever = params[0] == params[1];
  while (forever) {
  }
}

// Crashes on the rank whose coordinate is given as params[0] = params[1].
void crash(void *const *buffers, const int64_t *params, int64_t begin, int64_t end) {
  if (params[0] == params[1])
    *(volatile int *)params[1] = 1; // small numbers are no addresses
}

void nothing(void *const *buffers, const int64_t *params, int64_t begin, int64_t end) {}

// A linear model of `cols` weights, of which a rank may hold some, on `rows` samples:
// y[r] = sum of x[r][c] w[c].
void predict(void *const *buffers, const int64_t *params, int64_t begin, int64_t end) {
  const float *x = buffers[0], *w = buffers[1];
  float *y = buffers[2];
  for (int64_t r = 0; r < params[0]; ++r) {
    float sum = 0;
    for (int64_t c = 0; c < params[1]; ++c)
      sum += x[r * params[1] + c] * w[c];
    y[r] = sum;
  }
}

// Of the loss sum((y - t)^2) / params[2]: the gradient of w, and the loss itself behind it.
void descend(void *const *buffers, const int64_t *params, int64_t begin, int64_t end) {
  const float *x = buffers[0], *y = buffers[1], *t = buffers[2];
  float *gradient = buffers[3], loss = 0;
  for (int64_t c = 0; c < params[1]; ++c)
    gradient[c] = 0;
  for (int64_t r = 0; r < params[0]; ++r) {
    const float error = y[r] - t[r];
    loss += error * error;
    for (int64_t c = 0; c < params[1]; ++c)
      gradient[c] += 2 * error * x[r * params[1] + c] / (float)params[2];
  }
  gradient[params[1]] = loss / (float)params[2];
}

// out[0] = the sum of the squares of params[0] elements.
void squares(void *const *buffers, const int64_t *params, int64_t begin, int64_t end) {
  const float *x = buffers[0];
  float sum = 0;
  for (int64_t i = 0; i < params[0]; ++i)
    sum += x[i] * x[i];
  *(float *)buffers[1] = sum;
}

static float squareRoot(float x) {
  float root = x > 1 ? x : 1;
  for (int i = 0; i < 60; ++i)
    root = (root + x / root) / 2;
  return root;
}

// Stochastic gradient descent with momentum. buffers: gradient, sum of squares of all of it, step values (lr,
// momentum, weight decay, clip), w, momentum, norm.
void update(void *const *buffers, const int64_t *params, int64_t begin, int64_t end) {
  const float *gradient = buffers[0], *values = buffers[2];
  float *w = buffers[3], *momentum = buffers[4], *norm = buffers[5];
  *norm = squareRoot(*(const float *)buffers[1]);
  const float shrink = values[3] / (*norm + 1e-6f), scale = shrink < 1 ? shrink : 1;
  for (int64_t c = 0; c < params[0]; ++c) {
    momentum[c] = values[1] * momentum[c] + scale * gradient[c] + values[2] * w[c];
    w[c] -= values[0] * momentum[c];
  }
}
