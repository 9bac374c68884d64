"""Benchmarks of lod and other libraries: what `lod bench` runs.

    measure   interleaved timing, disturbed samples, comparison of results, limits of the machine
    suites    the tasks: cases, lengths of sequences, and lod's implementations
    peers     other libraries, one file each
    report    results as a table, JSON, Markdown or a plot, and their comparison

docs/benchmarking.md describes the method.
"""
