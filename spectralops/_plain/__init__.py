"""Plain pipelines over the names that NumPy and CuPy share: the baselines, and the executors for CuPy arrays."""
