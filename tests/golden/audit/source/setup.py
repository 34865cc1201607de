from setuptools import setup

nvcc_flags = [
    "-O3",
    "-gencode=arch=compute_80,code=sm_80",
    "-gencode", "arch=compute_90a,code=sm_90a",  # not "arch=compute_70,code=sm_70"
]
if with_blackwell:
    nvcc_flags.append("-gencode=arch=compute_120,code=compute_120")
TORCH_CUDA_ARCH_LIST = "8.0;9.0a+PTX"
other = ["-arch=sm_89"]
setup(name="sample")
