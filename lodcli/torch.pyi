# Made by `python -m tests.make_stubs` of the module beside it: change that one.
from lodcli.kernels.torch.rnn import GRU as GRU
from lodcli.kernels.torch.rnn import LSTM as LSTM
from lodcli.kernels.torch.rnn import RNN as RNN
from lodcli.kernels.torch.rnn import replace as replace
from lodcli.kernels.torch.rnn import restore as restore

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "replace",
    "restore",
]
