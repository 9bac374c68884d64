"""Layers and directions over a LoDTensor; chunks of long sequences."""
