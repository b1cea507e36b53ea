"""The commands of ``python -m spectralops``, one module each."""
