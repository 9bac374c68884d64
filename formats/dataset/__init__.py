"""Datasets: a folder of containers and a manifest. docs/datasets.md."""
