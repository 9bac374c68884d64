"""RNN cells: equations, gate order, weight shapes."""
