/* Launch overhead: empty kernels, one after the other on one stream.
 *
 *   launch_eager       host time a launch, many in a row, until the GPU is done
 *   launch_sync        one launch and waiting for it, as the host sees it
 *   launch_graph_node  a captured graph of many empty kernels: time a node
 *   launch_graph_sync  a graph of one empty kernel, launched and waited for
 *   launch_full_node   a graph of kernels whose blocks fill every SM: time a node
 *   launch_dependent   the same, each launched with programmatic dependent launch and waiting for the one ahead: what a
 *                      kernel pays that may start early but finds no room until the one ahead ends
 *   timer_floor        what the harness's events measure for one empty kernel: the least time it can tell
 *
 * Bound: host, driver and front end: eager 2 to 5 us, a graph node 0.8 to 2 us.
 */
#include <time.h>

#include <cstdio>
#include <cstring>

#include "ceil.h"

__global__ void empty_kernel() {}

/* 1024 threads, all the shared memory that a block may have: one block an SM. */
__global__ void __launch_bounds__(1024, 1) full_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

static cudaError_t launch_full(const kvk_bench *b, bool dependent) {
  int most = 0;
  cudaError_t code = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, b->gpu->device);
  if (code == cudaSuccess)
    code = cudaFuncSetAttribute(full_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
  cudaLaunchAttribute overlap;
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((unsigned)b->gpu->sms, 1, 1);
  config.blockDim = dim3(1024, 1, 1);
  config.dynamicSmemBytes = (size_t)most;
  config.stream = b->stream;
  config.attrs = &overlap;
  config.numAttrs = dependent ? 1 : 0;
  return code == cudaSuccess ? cudaLaunchKernelEx(&config, full_kernel) : code;
}

static double seconds(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static cudaError_t launch_empty(void *, cudaStream_t s) {
  empty_kernel<<<1, 32, 0, s>>>();
  return cudaGetLastError();
}

enum launch_node { NODE_EMPTY, NODE_FULL, NODE_DEPENDENT };

static kv_status build(kvk_bench *b, int nodes, launch_node node, cudaGraphExec_t *exec, kv_error *err) {
  cudaGraph_t graph = NULL;
  kv_status st = kvk_cuda(cudaStreamBeginCapture(b->stream, cudaStreamCaptureModeThreadLocal), "launch", err);
  if (st) return st;
  for (int i = 0; i < nodes; i++)
    (void)(node == NODE_EMPTY ? launch_empty(NULL, b->stream) : launch_full(b, node == NODE_DEPENDENT));
  st = kvk_cuda(cudaStreamEndCapture(b->stream, &graph), "launch", err);
  if (!st) st = kvk_cuda(cudaGraphInstantiate(exec, graph, 0), "launch", err);
  if (graph) (void)cudaGraphDestroy(graph);
  return st;
}

/* One host-timed run of `count` launches (of the graph, or of the kernel when exec is NULL) and a wait. */
static kv_status host_timed(kvk_bench *b, cudaGraphExec_t exec, int count, double *took, kv_error *err) {
  cudaError_t code = cudaSuccess;
  double start = seconds();
  for (int i = 0; i < count && code == cudaSuccess; i++)
    code = exec ? cudaGraphLaunch(exec, b->stream) : launch_empty(NULL, b->stream);
  if (code == cudaSuccess) code = cudaStreamSynchronize(b->stream);
  *took = seconds() - start;
  return kvk_cuda(code, "launch", err);
}

struct launch_case {
  const char *name;
  const char *text;
  int nodes;    /* of the graph; 0 = eager */
  int launches; /* a run */
  launch_node node;
};

static kv_status point(kvk_bench *b, const launch_case *c, kv_error *err) {
  kvk_point p = kvk_bench_blank(c->name, "1", KVK_LATENCY);
  cudaGraphExec_t exec = NULL;
  kvk_state_clear(&p.state);
  kv_status st = c->nodes ? build(b, c->nodes, c->node, &exec, err) : KV_OK;
  for (uint32_t r = 0; !st && r < kvk_bench_repeats(b) + 3; r++) { /* three to warm up */
    double took = 0;
    st = host_timed(b, exec, c->launches, &took, err);
    if (!st && r >= 3) p.seconds[p.samples++] = took;
  }
  if (exec) (void)cudaGraphExecDestroy(exec);
  if (st) return st;
  kvk_nvml_read(kvk_device_nvml(b->device), &p.state);
  (void)std::snprintf(p.variant, sizeof p.variant, "%s", c->text);
  p.blocks = 1;
  p.threads = 32;
  p.work = (double)c->launches * (c->nodes ? c->nodes : 1);
  return kvk_bench_hand_on(b, &p, err);
}

kv_status kvk_ceil_launch(kvk_bench *b, kv_error *err) {
  static const launch_case cases[] = {
      {"launch_eager", "empty kernels in a row", 0, 500, NODE_EMPTY},
      {"launch_sync", "one empty kernel, waited for", 0, 1, NODE_EMPTY},
      {"launch_graph_node", "graph of 500 empty kernels", 500, 1, NODE_EMPTY},
      {"launch_graph_sync", "graph of one empty kernel, waited for", 1, 1, NODE_EMPTY},
      {"launch_full_node", "graph of 500 kernels that fill the SMs", 500, 1, NODE_FULL},
      {"launch_dependent", "the same, dependent launch", 500, 1, NODE_DEPENDENT}};
  kv_status st = KV_OK;
  for (size_t i = 0; !st && i < sizeof cases / sizeof *cases; i++) st = point(b, &cases[i], err);
  if (st) return st;
  kvk_point p = kvk_bench_blank("timer_floor", "1", KVK_LATENCY);
  (void)std::snprintf(p.variant, sizeof p.variant, "events around one empty kernel");
  p.blocks = 1;
  p.threads = 32;
  p.work = 1;
  return kvk_bench_point(b, &p, launch_empty, NULL, err);
}
