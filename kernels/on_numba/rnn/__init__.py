"""Recurrent layers, compiled: see docs/decisions/0008-compiled-rnn.md, and layer.py above.

lanes         vectors as values; what the processor has
activations   tanh and sigmoid
tiles         a few rows times a panel of columns
products      whole matrices, made of tiles
cells         one step of a cell
arrays        arrays as compiled code takes them
packing       weights in panels
schedule      which thread runs which sequences
barrier       where threads meet that share every step
forward       a share of the sequences, from first step to last
backward      a chunk of steps, from last to first
collecting    the arrays of the way back, and the gradients in the end
"""
