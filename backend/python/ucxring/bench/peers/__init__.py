"""Measures the MPI libraries that PyPI carries beside ucxring's own C++ benchmark."""
