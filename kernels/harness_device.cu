/* The timer of a real device: stream, events, flush buffer, graphs. The order and the statistics of runs are
 * harness.c's. */
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda_status.h"
#include "harness.h"

struct kvk_device {
  kvk_gpu gpu;
  kvk_nvml *nvml;
  cudaStream_t stream;
  cudaEvent_t before, after;
  unsigned char *flush;
  size_t flush_bytes;
  unsigned *dump;
};

/* ---- helper kernels ---- */

/* Reads the whole buffer; what is read goes nowhere unless all bits are set, which noise never gives. */
__global__ void flush_kernel(const uint4 *p, size_t n, unsigned *dump) {
  uint4 acc = make_uint4(~0u, ~0u, ~0u, ~0u);
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
    uint4 v = p[i];
    acc.x &= v.x;
    acc.y &= v.y;
    acc.z &= v.z;
    acc.w &= v.w;
  }
  if ((acc.x & acc.y & acc.z & acc.w) == ~0u) atomicAdd(dump, 1u);
}

/* Keeps the stream busy while the host enqueues what is timed. */
__global__ void spin_kernel(long long cycles) {
  for (long long start = clock64(); clock64() - start < cycles;) {
  }
}

__device__ unsigned mix(unsigned long long z) {
  z += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return (unsigned)((z ^ (z >> 31)) >> 16);
}

__global__ void noise_kernel(unsigned *p, size_t n, unsigned long long seed, bool bf16) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
    unsigned v = mix(seed * 0x100000001B3ull + i);
    if (bf16) {
      float a = (float)(v & 0xFFFFu) / 65536.0f - 0.5f, b = (float)(v >> 16) / 65536.0f - 0.5f;
      v = (__float_as_uint(a) >> 16) | (__float_as_uint(b) & 0xFFFF0000u);
    }
    p[i] = v;
  }
}

/* ---- opening and closing ---- */

static kv_status set_up(kvk_device *d, kv_error *err) {
  size_t least = (size_t)64 << 20;
  d->flush_bytes = d->gpu.l2 ? 4 * (size_t)d->gpu.l2 : least;
  if (d->flush_bytes < least) d->flush_bytes = least;
  kv_status st =
      kvk_cuda(cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking), "creating a stream", err);
  if (!st) st = kvk_cuda(cudaEventCreate(&d->before), "creating an event", err);
  if (!st) st = kvk_cuda(cudaEventCreate(&d->after), "creating an event", err);
  if (!st) st = kvk_cuda(cudaMalloc((void **)&d->dump, 64), "allocating the harness's buffers", err);
  if (!st)
    st = kvk_cuda(cudaMalloc((void **)&d->flush, d->flush_bytes), "allocating the L2 flush buffer", err);
  if (!st) st = kvk_device_noise(d, d->flush, d->flush_bytes, 1, false, err);
  if (!st) st = kvk_device_wait(d, err);
  return st;
}

kv_status kvk_device_open(int device, kvk_device **out, char *note, size_t note_size, kv_error *err) {
  kv_error nvml_error = {KV_OK, ""};
  kvk_device *d = (kvk_device *)std::calloc(1, sizeof *d);
  *out = NULL;
  if (note && note_size) note[0] = '\0';
  if (!d) return kv_fail(err, KV_ERR_MEMORY, "device %d: out of memory", device);
  kv_status st = kvk_gpu_get(device, &d->gpu, err);
  if (!st && kvk_nvml_open(NULL, d->gpu.pci, &d->nvml, &nvml_error) != KV_OK && note)
    (void)std::snprintf(note, note_size, "%s", nvml_error.text);
  if (!st) st = set_up(d, err);
  if (st) kvk_device_close(d);
  else *out = d;
  return st;
}

void kvk_device_close(kvk_device *d) {
  if (!d) return;
  if (d->flush) (void)cudaFree(d->flush);
  if (d->dump) (void)cudaFree(d->dump);
  if (d->before) (void)cudaEventDestroy(d->before);
  if (d->after) (void)cudaEventDestroy(d->after);
  if (d->stream) (void)cudaStreamDestroy(d->stream);
  kvk_nvml_close(d->nvml);
  std::free(d);
}

const kvk_gpu *kvk_device_gpu(const kvk_device *d) {
  return &d->gpu;
}
void *kvk_device_stream(kvk_device *d) {
  return d->stream;
}
const kvk_nvml *kvk_device_nvml(const kvk_device *d) {
  return d->nvml;
}

/* ---- memory ---- */

uint64_t kvk_device_room(kvk_device *d) {
  size_t free_bytes = 0, total = 0;
  const size_t gib = (size_t)1 << 30;
  if (cudaSetDevice(d->gpu.device) != cudaSuccess || cudaMemGetInfo(&free_bytes, &total) != cudaSuccess)
    return 0;
  size_t reserve = total < 32 * gib ? total / 8 : 4 * gib;
  return free_bytes > reserve ? free_bytes - reserve : 0;
}

kv_status kvk_device_alloc(kvk_device *d, uint64_t bytes, void **pointer, kv_error *err) {
  uint64_t room = kvk_device_room(d);
  char what[96];
  *pointer = NULL;
  if (bytes > room)
    return kv_fail(err, KV_ERR_MEMORY, "device %d: %.2f GiB wanted, but only %.2f GiB may be taken: %s",
                   d->gpu.device, (double)bytes / 1073741824.0, (double)room / 1073741824.0,
                   "free device memory, or ask for a smaller pool");
  (void)std::snprintf(what, sizeof what, "device %d: allocating %.2f GiB", d->gpu.device,
                      (double)bytes / 1073741824.0);
  return kvk_cuda(cudaMalloc(pointer, bytes ? bytes : 1), what, err);
}

void kvk_device_free(kvk_device *d, void *pointer) {
  if (d && pointer) (void)cudaFree(pointer);
}

kv_status kvk_device_put(kvk_device *d, void *device, const void *host, uint64_t bytes, kv_error *err) {
  kv_status st = kvk_cuda(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, d->stream),
                          "copying to the GPU", err);
  return st ? st : kvk_device_wait(d, err);
}

kv_status kvk_device_take(kvk_device *d, void *host, const void *device, uint64_t bytes, kv_error *err) {
  kv_status st = kvk_cuda(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, d->stream),
                          "copying from the GPU", err);
  return st ? st : kvk_device_wait(d, err);
}

kv_status kvk_device_noise(kvk_device *d, void *device, uint64_t bytes, uint64_t seed, bool bf16,
                           kv_error *err) {
  noise_kernel<<<4 * d->gpu.sms, 512, 0, d->stream>>>((unsigned *)device, bytes / 4, seed, bf16);
  return kvk_cuda(cudaGetLastError(), "filling device memory", err);
}

kv_status kvk_device_wait(kvk_device *d, kv_error *err) {
  return kvk_cuda(cudaStreamSynchronize(d->stream), "waiting for the GPU", err);
}

/* ---- timing ---- */

struct bench_session {
  kvk_device *device;
  const kvk_contender *contenders;
  cudaGraphExec_t *graphs; /* NULL entries are enqueued eagerly */
};

static kv_status enqueue(struct bench_session *s, size_t which, kv_error *err) {
  const kvk_contender *c = &s->contenders[which];
  if (s->graphs[which]) return kvk_cuda(cudaGraphLaunch(s->graphs[which], s->device->stream), c->name, err);
  return c->enqueue(c->self, s->device->stream, err);
}

/* What runs before the timed part: cold, a read of the flush buffer; warm, a spin of about 30 us. */
static kv_status prepare(kvk_device *d, bool cold, kv_error *err) {
  if (cold)
    flush_kernel<<<8 * d->gpu.sms, 256, 0, d->stream>>>((const uint4 *)d->flush, d->flush_bytes / 16,
                                                        d->dump);
  else spin_kernel<<<1, 1, 0, d->stream>>>((long long)d->gpu.sm_clock_khz * 30 / 1000);
  return kvk_cuda(cudaGetLastError(), "preparing a timed run", err);
}

static kv_status timed_run(void *self, size_t which, bool cold, bool timed, double *seconds, kv_error *err) {
  struct bench_session *s = (struct bench_session *)self;
  kvk_device *d = s->device;
  float ms = 0;
  if (!timed) {
    kv_status plain = enqueue(s, which, err);
    return plain ? plain : kvk_device_wait(d, err);
  }
  kv_status st = prepare(d, cold, err);
  if (!st) st = kvk_cuda(cudaEventRecord(d->before, d->stream), "recording an event", err);
  if (!st) st = enqueue(s, which, err);
  if (!st) st = kvk_cuda(cudaEventRecord(d->after, d->stream), "recording an event", err);
  if (!st) st = kvk_cuda(cudaStreamSynchronize(d->stream), s->contenders[which].name, err);
  if (!st) st = kvk_cuda(cudaEventElapsedTime(&ms, d->before, d->after), "reading a time", err);
  if (!st) *seconds = (double)ms * 1e-3;
  return st;
}

static void read_state(void *self, kvk_state *state) {
  kvk_nvml_read(((struct bench_session *)self)->device->nvml, state);
}

static double monotonic(void *) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static kv_status capture(kvk_device *d, const kvk_contender *c, cudaGraphExec_t *out, kv_error *err) {
  cudaGraph_t graph = NULL;
  kv_status st =
      kvk_cuda(cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeThreadLocal), "capturing a graph", err);
  if (st) return st;
  st = c->enqueue(c->self, d->stream, err);
  cudaError_t ended = cudaStreamEndCapture(d->stream, &graph);
  if (!st) st = kvk_cuda(ended, c->name, err);
  if (!st) st = kvk_cuda(cudaGraphInstantiate(out, graph, 0), "instantiating a graph", err);
  if (!st) st = kvk_cuda(cudaGraphUpload(*out, d->stream), "uploading a graph", err);
  if (graph) (void)cudaGraphDestroy(graph);
  return st;
}

kv_status kvk_device_measure(kvk_device *d, const kvk_contender *contenders, size_t count,
                             const kvk_plan *plan, kvk_series *series, kv_error *err) {
  struct bench_session s = {d, contenders,
                            (cudaGraphExec_t *)std::calloc(count ? count : 1, sizeof(cudaGraphExec_t))};
  kvk_timer timer = {&s, timed_run, read_state, monotonic};
  if (!s.graphs) return kv_fail(err, KV_ERR_MEMORY, "harness: out of memory");
  kv_status st = kvk_cuda(cudaSetDevice(d->gpu.device), "selecting the device", err);
  for (size_t i = 0; !st && i < count; i++)
    if (contenders[i].graph) st = capture(d, &contenders[i], &s.graphs[i], err);
  if (!st) st = kvk_measure(&timer, count, plan, series, err);
  for (size_t i = 0; i < count; i++)
    if (s.graphs[i]) (void)cudaGraphExecDestroy(s.graphs[i]);
  std::free(s.graphs);
  return st;
}
