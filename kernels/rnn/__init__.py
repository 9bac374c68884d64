"""Recurrent networks over ragged sequences, forward and backward, without padding.

cells      one folder per cell: equations, gate order, weight shapes; their registry
engine     one layer in one direction: the NumPy reference, its twins, choice of a backend
stack      layers and directions, state dicts, chunks of long sequences, layouts of Paddle
nested     an inner RNN over sentences, an outer RNN over articles
loops      RNNs with a custom step function, while loops, attention_lstm
training   loss, optimizer, classifier, epochs
"""
