// Channel mixing of a spectral convolution, wavenumber by wavenumber, and what surrounds it: scale, weights of the bins.
//
//   mix        y[b][o][k] = f(k) sum_i x[b][i][k] w[i][o][k]
//   multiply   y[b][c][k] = f(k) x[b][c][k] w[c][k]
//
// The lanes of a warp are neighbouring wavenumbers, so that spectra and weights are read as they are stored.
#include "complex.cuh"

struct MixArguments {
  long long modes;              // wavenumbers of a channel
  long long batch, in, out;     // samples and channels
  long long weight_in, weight_out;  // distances between the weight's channels, in complex numbers
  long long last;               // wavenumbers along the last axis
  long long read, written;      // lengths of the real grids along the last axis whose bins count differently, 0 if none do
  double scale;
  double sign;                  // of the weight's imaginary parts
};

// Zero and Nyquist stand for one wavenumber of a real signal, all others for two.
SOPS_DEVICE int bins(index_t k, index_t n) { return k == 0 || 2 * k == n ? 1 : 2; }

template <typename T>
SOPS_DEVICE T bin_factor(const MixArguments& a, index_t mode) {
  if (a.read == 0) return (T)a.scale;
  const index_t k = mode % (index_t)a.last;
  return (T)(a.scale * bins(k, (index_t)a.read) / bins(k, (index_t)a.written));
}

// A warp computes OUT channels of BATCH samples at 32 wavenumbers; a block has WARPS_BATCH by WARPS_OUT warps.
template <typename T, int BATCH, int OUT, int WARPS_BATCH, int WARPS_OUT>
__global__ __launch_bounds__(32 * WARPS_BATCH* WARPS_OUT) void mix(const Complex<T>* __restrict__ x,
                                                                    const Complex<T>* __restrict__ w,
                                                                    Complex<T>* __restrict__ y, MixArguments a) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const index_t modes = (index_t)a.modes, mode = (index_t)blockIdx.x * 32 + lane;
  const index_t k = mode < modes ? mode : modes - 1;
  const index_t b0 = ((index_t)blockIdx.z * WARPS_BATCH + warp % WARPS_BATCH) * BATCH;
  const index_t o0 = ((index_t)blockIdx.y * WARPS_OUT + warp / WARPS_BATCH) * OUT;
  const T sign = (T)a.sign;
  const Complex<T>* rows[BATCH];
  const Complex<T>* columns[OUT];
#pragma unroll
  for (int b = 0; b < BATCH; ++b) {
    const index_t sample = b0 + b < (index_t)a.batch ? b0 + b : (index_t)a.batch - 1;
    rows[b] = x + sample * (index_t)a.in * modes + k;
  }
#pragma unroll
  for (int o = 0; o < OUT; ++o) {
    const index_t channel = o0 + o < (index_t)a.out ? o0 + o : (index_t)a.out - 1;
    columns[o] = w + channel * (index_t)a.weight_out + k;
  }
  Complex<T> sum[BATCH][OUT];
#pragma unroll
  for (int b = 0; b < BATCH; ++b)
#pragma unroll
    for (int o = 0; o < OUT; ++o) sum[b][o] = {0, 0};
  constexpr int AHEAD = BATCH * OUT > 8 ? 2 : 8;  // loads in flight against registers
#pragma unroll AHEAD
  for (index_t i = 0; i < (index_t)a.in; ++i) {
    Complex<T> u[BATCH], h[OUT];
#pragma unroll
    for (int b = 0; b < BATCH; ++b) u[b] = rows[b][i * modes];
#pragma unroll
    for (int o = 0; o < OUT; ++o) {
      h[o] = columns[o][i * (index_t)a.weight_in];
      h[o].im *= sign;
    }
#pragma unroll
    for (int b = 0; b < BATCH; ++b)
#pragma unroll
      for (int o = 0; o < OUT; ++o) {
        sum[b][o].re += u[b].re * h[o].re;
        sum[b][o].re -= u[b].im * h[o].im;
        sum[b][o].im += u[b].re * h[o].im;
        sum[b][o].im += u[b].im * h[o].re;
      }
  }
  if (mode >= modes) return;
  const T factor = bin_factor<T>(a, mode);
#pragma unroll
  for (int b = 0; b < BATCH; ++b)
#pragma unroll
    for (int o = 0; o < OUT; ++o)
      if (b0 + b < (index_t)a.batch && o0 + o < (index_t)a.out)
        y[((b0 + b) * (index_t)a.out + o0 + o) * modes + mode] = sum[b][o] * factor;
}

template <typename T>
__global__ void multiply(const Complex<T>* __restrict__ x, const Complex<T>* __restrict__ w, Complex<T>* __restrict__ y,
                         MixArguments a) {
  const index_t modes = (index_t)a.modes, size = (index_t)a.batch * (index_t)a.in * modes;
  const index_t at = (index_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= size) return;
  const index_t mode = at % modes, channel = at / modes % (index_t)a.in;
  Complex<T> h = w[channel * (index_t)a.weight_in + mode];
  h.im *= (T)a.sign;
  y[at] = x[at] * h * bin_factor<T>(a, mode);
}
