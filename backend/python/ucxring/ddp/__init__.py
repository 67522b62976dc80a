"""Distributed data parallel training."""
