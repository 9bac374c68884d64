"""Benchmarks of lod and other libraries: what `lod bench` runs.

    cases, lengths    what is measured: how many rows, in sequences of which lengths
    suites            the tasks, and lod's and the peers' implementations
    checks            that all candidates computed the same
    harness, samples  interleaved timing, and which samples were disturbed
    limits            the machine's limits
    results           the measurements; report, export, plot and compare show them

Peers are in peers/, one file a library. docs/benchmarking.md describes the method.
"""
