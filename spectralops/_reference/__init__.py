"""Slow, obvious float64 versions of every operator: their meaning, and the oracle of all executors."""
