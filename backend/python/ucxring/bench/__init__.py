"""Measures collectives of several backends side by side."""
