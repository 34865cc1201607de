/* Launch overhead: empty kernels, one after the other on one stream.
 *
 *   launch_eager       host time a launch, many in a row, until the GPU is done
 *   launch_sync        one launch and waiting for it, as the host sees it
 *   launch_graph_node  a captured graph of many empty kernels: time a node
 *   launch_graph_sync  a graph of one empty kernel, launched and waited for
 *   timer_floor        what the harness's events measure for one empty kernel: the least time it can tell
 *
 * Bound: host, driver and front end: eager 2 to 5 us, a graph node 0.8 to 2 us.
 */
#include <time.h>

#include <cstdio>
#include <cstring>

#include "ceil.h"

__global__ void empty_kernel() {}

static double seconds(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static cudaError_t launch_empty(void *, cudaStream_t s) {
  empty_kernel<<<1, 32, 0, s>>>();
  return cudaGetLastError();
}

static kv_status build(kvk_bench *b, int nodes, cudaGraphExec_t *exec, kv_error *err) {
  cudaGraph_t graph = NULL;
  kv_status st = kvk_cuda(cudaStreamBeginCapture(b->stream, cudaStreamCaptureModeThreadLocal), "launch", err);
  if (st) return st;
  for (int i = 0; i < nodes; i++) (void)launch_empty(NULL, b->stream);
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
};

static kv_status point(kvk_bench *b, const launch_case *c, kv_error *err) {
  kvk_point p = kvk_bench_blank(c->name, "1", KVK_LATENCY);
  cudaGraphExec_t exec = NULL;
  kvk_state_clear(&p.state);
  kv_status st = c->nodes ? build(b, c->nodes, &exec, err) : KV_OK;
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
  static const launch_case cases[] = {{"launch_eager", "empty kernels in a row", 0, 500},
                                      {"launch_sync", "one empty kernel, waited for", 0, 1},
                                      {"launch_graph_node", "graph of 500 empty kernels", 500, 1},
                                      {"launch_graph_sync", "graph of one empty kernel, waited for", 1, 1}};
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
