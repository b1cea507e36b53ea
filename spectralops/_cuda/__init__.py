"""CUDA executors: kernels of our own, compiled at first use for the shapes that a plan names."""
