"""Benchmarks: ratios taken in one run, since absolute times on a shared machine mean little."""
