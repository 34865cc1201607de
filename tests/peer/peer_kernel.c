#include "peer_kernel.h"

#include <cuda_runtime_api.h>
#include <cudaTypedefs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the driver, found through the runtime: libcuda need not be there when this is linked ---- */

static struct {
  PFN_cuGetErrorString_v6000 error_text;
  PFN_cuModuleLoadData_v2000 load;
  PFN_cuModuleUnload_v2000 unload;
  PFN_cuModuleGetFunction_v2000 function;
  PFN_cuFuncSetAttribute_v9000 set;
  PFN_cuFuncSetCacheConfig_v3000 cache;
  PFN_cuLaunchKernelEx_v11060 launch;
  PFN_cuGraphKernelNodeGetParams_v12000 node;
} driver;

static kv_status find_driver(kv_error *err) {
  static const struct {
    const char *name;
    unsigned version;
    void *to;
  } entry[] = {{"cuGetErrorString", 6000, &driver.error_text}, {"cuModuleLoadData", 2000, &driver.load},
               {"cuModuleUnload", 2000, &driver.unload},       {"cuModuleGetFunction", 2000, &driver.function},
               {"cuFuncSetAttribute", 9000, &driver.set},      {"cuFuncSetCacheConfig", 3000, &driver.cache},
               {"cuLaunchKernelEx", 11060, &driver.launch},    {"cuGraphKernelNodeGetParams", 12000, &driver.node}};
  if (driver.node) return KV_OK;
  for (size_t i = 0; i < sizeof entry / sizeof *entry; i++) {
    enum cudaDriverEntryPointQueryResult found;
    void *symbol = NULL;
    const cudaError_t e = cudaGetDriverEntryPointByVersion(entry[i].name, &symbol, entry[i].version, cudaEnableDefault, &found);
    if (e != cudaSuccess || !symbol)
      return kv_fail(err, KV_ERR_DEVICE, "the driver lacks %s (%s): CUDA 12 or later is needed", entry[i].name, cudaGetErrorString(e));
    memcpy(entry[i].to, &symbol, sizeof symbol);
  }
  return KV_OK;
}

static kv_status driver_status(CUresult code, const char *what, kv_error *err) {
  const char *text = NULL;
  if (code == CUDA_SUCCESS) return KV_OK;
  if (driver.error_text(code, &text) != CUDA_SUCCESS || !text) text = "unknown error";
  return kv_fail(err, KV_ERR_DEVICE, "%s: %s (driver error %d)", what, text, (int)code);
}

/* ---- the description ---- */

static bool take_number(peer_kernel *k, const char *line) {
  const struct {
    const char *key;
    unsigned *to;
  } field[] = {{"heads", &k->heads},   {"queries", &k->queries},     {"threads", &k->threads}, {"stages", &k->stages},
               {"shared", &k->shared}, {"registers", &k->registers}, {"stack", &k->stack}};
  char key[32];
  unsigned value;
  if (sscanf(line, "%31s %u", key, &value) != 2) return false;
  for (size_t i = 0; i < sizeof field / sizeof *field; i++)
    if (!strcmp(key, field[i].key)) {
      *field[i].to = value;
      return true;
    }
  return false;
}

static bool take_param(peer_kernel *k, const char *line) {
  char number[64];
  if (k->params == PEER_PARAMS) return false;
  peer_param *p = &k->param[k->params];
  if (sscanf(line, "param %31s %15s %63s", p->name, p->type, number) != 3) return false;
  if (p->type[0] != '*') {
    char *end;
    p->number = strtod(number, &end);
    if (end == number || *end || (strcmp(p->type, "i32") && strcmp(p->type, "fp32"))) return false;
  }
  k->params++;
  return true;
}

static bool take_line(peer_kernel *k, const char *line) {
  return !strcmp(line, "format peer-kernel-1") || sscanf(line, "sglang %31s", k->sglang) == 1 || sscanf(line, "triton %31s", k->triton) == 1 ||
         sscanf(line, "name %63s", k->symbol) == 1 || sscanf(line, "tile %u %u", &k->block_m, &k->block_n) == 2 ||
         sscanf(line, "grid %u %u %u", &k->grid[0], &k->grid[1], &k->grid[2]) == 3 || take_number(k, line) || take_param(k, line);
}

kv_status peer_kernel_read(const char *stem, peer_kernel *k, kv_error *err) {
  char path[512], line[256];
  (void)snprintf(path, sizeof path, "%s.txt", stem);
  memset(k, 0, sizeof *k);
  FILE *f = fopen(path, "r");
  if (!f) return kv_fail(err, KV_ERR_IO, "%s: cannot be read; compile_sglang_extend.py writes it", path);
  kv_status st = KV_OK;
  for (int number = 1; !st && fgets(line, sizeof line, f); number++) {
    line[strcspn(line, "\n")] = '\0';
    if (!take_line(k, line)) st = kv_fail(err, KV_ERR_INPUT, "%s: line %d: '%.60s' is not understood", path, number, line);
  }
  (void)fclose(f);
  if (!st && (!k->symbol[0] || !k->threads || !k->grid[2] || !k->params))
    st = kv_fail(err, KV_ERR_INPUT, "%s: no name, threads, grid or parameters", path);
  return st;
}

/* ---- loading, as Triton 3.8's driver.c does ---- */

static kv_status read_file(const char *path, void **bytes, kv_error *err) {
  const size_t most = (size_t)16 << 20;
  FILE *f = fopen(path, "rb");
  *bytes = malloc(most);
  const size_t n = f && *bytes ? fread(*bytes, 1, most, f) : 0;
  if (f) (void)fclose(f);
  return n && n < most ? KV_OK : kv_fail(err, KV_ERR_IO, "%s: cannot be read, empty, or 16 MiB and more", path);
}

/* Triton first asks for a mode that drivers of CUDA 13.0 do not know; refused, it prefers shared memory over the L1. */
static CUresult least_l1(CUfunction function) {
  const CUfunction_attribute shared_memory_mode = (CUfunction_attribute)17;
  const int allow_oversized = 3;
  if (driver.set(function, shared_memory_mode, allow_oversized) == CUDA_SUCCESS) return CUDA_SUCCESS;
  return driver.cache(function, CU_FUNC_CACHE_PREFER_SHARED);
}

kv_status peer_kernel_load(const char *stem, bool as_triton, peer_kernel *k, kv_error *err) {
  char path[512];
  void *cubin = NULL;
  kv_status st = peer_kernel_read(stem, k, err);
  (void)snprintf(path, sizeof path, "%s.cubin", stem);
  if (!st) st = find_driver(err);
  if (!st) st = read_file(path, &cubin, err);
  if (!st) st = driver_status(driver.load(&k->module, cubin), path, err);
  if (!st) st = driver_status(driver.function(&k->function, k->module, k->symbol), path, err);
  if (!st && as_triton) st = driver_status(least_l1(k->function), path, err);
  if (!st) st = driver_status(driver.set(k->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)k->shared), path, err);
  free(cubin);
  return st;
}

void peer_kernel_close(peer_kernel *k) {
  if (k->module) (void)driver.unload(k->module);
  k->module = NULL;
}

/* ---- the call ---- */

kv_status peer_kernel_bind(peer_kernel *k, const peer_array *arrays, unsigned count, kv_error *err) {
  for (unsigned i = 0; i < k->params; i++) {
    const peer_param *p = &k->param[i];
    unsigned a = 0;
    k->argument[i] = &k->value[i];
    k->value[i].pointer = NULL;
    if (!strcmp(p->type, "i32")) k->value[i].integer = (int32_t)p->number;
    else if (!strcmp(p->type, "fp32")) k->value[i].real = (float)p->number;
    else if (strcmp(p->type, "*scratch") != 0) {
      while (a < count && (strcmp(arrays[a].name, p->name) || strcmp(arrays[a].type, p->type))) a++;
      if (a == count) return kv_fail(err, KV_ERR_INPUT, "%s: parameter %s of type %s is not known here", k->symbol, p->name, p->type);
      k->value[i].pointer = arrays[a].pointer;
    }
  }
  return KV_OK;
}

kv_status peer_kernel_enqueue(void *self, void *stream, kv_error *err) {
  peer_kernel *k = self;
  const CUlaunchConfig config = {.gridDimX = k->grid[0], .gridDimY = k->grid[1], .gridDimZ = k->grid[2],
                                 .blockDimX = k->threads, .blockDimY = 1, .blockDimZ = 1,
                                 .sharedMemBytes = k->shared, .hStream = (CUstream)stream};
  return driver_status(driver.launch(&config, k->function, k->argument, NULL), k->symbol, err);
}

/* ---- ours ---- */

void peer_ours_close(peer_ours *o) {
  if (o->graph) (void)cudaGraphDestroy(o->graph);
  o->graph = NULL;
}

static kv_status only_node(CUgraph graph, CUgraphNode *node, kv_error *err) {
  size_t nodes = 1;
  if (cudaGraphGetNodes(graph, node, &nodes) != cudaSuccess || nodes != 1)
    return kv_fail(err, KV_ERR_INTERNAL, "%zu launches where one was expected", nodes);
  return KV_OK;
}

kv_status peer_ours_prepare(peer_ours *o, kv_error *err) {
  cudaStream_t stream = NULL;
  CUgraphNode node = NULL;
  peer_ours_close(o);
  if (!o->more_l1) return KV_OK;
  kv_status st = find_driver(err);
  if (st) return st;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess ||
      cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
    st = kv_fail(err, KV_ERR_DEVICE, "capturing %s: %s", kvk_kind_name(o->kind), cudaGetErrorString(cudaGetLastError()));
  else {
    st = kvk_launch(o->kind, o->problem, o->options, NULL, 0, stream, err);
    if (cudaStreamEndCapture(stream, &o->graph) != cudaSuccess && !st) st = kv_fail(err, KV_ERR_DEVICE, "capturing %s", kvk_kind_name(o->kind));
    if (!st) st = only_node(o->graph, &node, err);
    if (!st) st = driver_status(driver.node(node, &o->launch), kvk_kind_name(o->kind), err);
  }
  if (stream) (void)cudaStreamDestroy(stream);
  return st;
}

/* Percent of the most shared memory an SM may have that one block takes, the KB that every block has beside it included. */
static kv_status one_block(const CUDA_KERNEL_NODE_PARAMS *n, unsigned *percent, kv_error *err) {
  int device = 0, most = 0;
  if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device) != cudaSuccess || most <= 0)
    return kv_fail(err, KV_ERR_DEVICE, "shared memory of an SM: %s", cudaGetErrorString(cudaGetLastError()));
  *percent = (100 * (n->sharedMemBytes + 1024) + (unsigned)most - 1) / (unsigned)most;
  return KV_OK;
}

/* A launch attribute goes before the function's, which kvk_launch() sets; that the driver shall choose it cannot say. */
static kv_status launch_more_l1(peer_ours *o, void *stream, kv_error *err) {
  const CUDA_KERNEL_NODE_PARAMS *n = &o->launch;
  CUlaunchAttribute few = {.id = CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT};
  const kv_status st = one_block(n, &few.value.sharedMemCarveout, err);
  if (st) return st;
  const CUlaunchConfig config = {.gridDimX = n->gridDimX, .gridDimY = n->gridDimY, .gridDimZ = n->gridDimZ,
                                 .blockDimX = n->blockDimX, .blockDimY = n->blockDimY, .blockDimZ = n->blockDimZ,
                                 .sharedMemBytes = n->sharedMemBytes, .hStream = (CUstream)stream, .attrs = &few, .numAttrs = 1};
  return driver_status(driver.launch(&config, n->func ? n->func : (CUfunction)n->kern, n->kernelParams, NULL), kvk_kind_name(o->kind), err);
}

kv_status peer_ours_enqueue(void *self, void *stream, kv_error *err) {
  peer_ours *o = self;
  if (o->more_l1) return launch_more_l1(o, stream, err);
  return kvk_launch(o->kind, o->problem, o->options, NULL, 0, stream, err);
}
