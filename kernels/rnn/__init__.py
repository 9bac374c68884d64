"""Recurrent networks over ragged sequences, forward and backward, without padding.

plan          which rows run at which step
activations   sigmoid, tanh, relu, identity
weights       what every cell declares of its arrays
cell          the interface of a cell that is run step by step
linear_cell   the interface of a cell that is linear in its state; minimal: minGRU and minLSTM
elman, gru, gru_paddle, lstm, ..   one cell each: equations, gate order, weight shapes
cells         the table of cells
layer         one layer in one direction, by NumPy
linear_layer  one layer of a linear cell
engine        one layer in one direction: checks, and the choice of a backend
chunked       long sequences in chunks: checkpoints, truncated gradients
stack         layers and directions
states        the states of all layers
state_dict    weights by torch's names
paddle        weights in Paddle's layouts
attention     attention_lstm, forward only
run           an RNN over a LoDTensor
loop          while loops over TensorArrays
dynamic       an RNN whose step is a function
nested, nested_backward   RNNs over sentences inside of RNNs over articles
nested_run    the same over a LoDTensor
nested_dict   their weights by torch's names
work          how many operations a run takes
loss, adam    cross-entropy, and the optimizer
classifier    an RNN with a linear layer on top
train         mini-batches and epochs
"""
