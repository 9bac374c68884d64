"""Benchmarks of lod and other libraries: what `lod bench` runs.

    cases, lengths    what is measured: how many rows, in sequences of which lengths
    suites            which work, done by whom: ours and the peers
    checks            that all of them computed the same
    harness, samples  who takes how long, in turn, and what disturbed it
    limits            what the machine could do at best
    results           what was found; report, export, plot and compare show it

Peers are in peers/, one file a library. docs/benchmarking.md describes the method.
"""
