// A library that keeps one fatbin a kernel in plain data, some of them tuned for one GPU each (as cuFFT does):
// make_fixtures.sh compiles this once for each GPU and puts the pieces together. GPU 0 is the PTX for all of them.
namespace kvfix {

template <int Gpu>
__global__ void tuned(float *p) {
  p[threadIdx.x] += Gpu + 1;
}
template __global__ void tuned<GPU>(float *);

}  // namespace kvfix
