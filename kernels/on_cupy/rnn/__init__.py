"""RNN layers on a GPU: what layer.py beside this folder is made of."""
