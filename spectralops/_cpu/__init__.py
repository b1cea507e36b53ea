"""Tuned CPU executors."""
