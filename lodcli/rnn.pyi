# Made by `python -m tests.make_stubs` of the module beside it: change that one.
from lodcli.formats.weights import read_weights as read_weights
from lodcli.formats.weights import write_weights as write_weights
from lodcli.kernels.rnn.cells.cell import Cell as Cell
from lodcli.kernels.rnn.cells.cell import CellWeights as CellWeights
from lodcli.kernels.rnn.cells.elman.elman import ElmanCell as ElmanCell
from lodcli.kernels.rnn.cells.elman.elman import ElmanWeights as ElmanWeights
from lodcli.kernels.rnn.cells.gru.gru import GRUCell as GRUCell
from lodcli.kernels.rnn.cells.gru.gru import GRUWeights as GRUWeights
from lodcli.kernels.rnn.cells.gru_paddle.gru_paddle import PaddleGRUCell as PaddleGRUCell
from lodcli.kernels.rnn.cells.gru_paddle.gru_paddle import PaddleGRUWeights as PaddleGRUWeights
from lodcli.kernels.rnn.cells.linear_cell import LinearCell as LinearCell
from lodcli.kernels.rnn.cells.linear_cell import LinearWeights as LinearWeights
from lodcli.kernels.rnn.cells.lru.lru import LRUCell as LRUCell
from lodcli.kernels.rnn.cells.lru.lru import LRUWeights as LRUWeights
from lodcli.kernels.rnn.cells.lstm.lstm import LSTMCell as LSTMCell
from lodcli.kernels.rnn.cells.lstm.lstm import LSTMWeights as LSTMWeights
from lodcli.kernels.rnn.cells.mingru.mingru import MinGRUCell as MinGRUCell
from lodcli.kernels.rnn.cells.mingru.mingru import MinGRUWeights as MinGRUWeights
from lodcli.kernels.rnn.cells.minlstm.minlstm import MinLSTMCell as MinLSTMCell
from lodcli.kernels.rnn.cells.minlstm.minlstm import MinLSTMWeights as MinLSTMWeights
from lodcli.kernels.rnn.cells.registry import CELLS as CELLS
from lodcli.kernels.rnn.cells.registry import CellEntry as CellEntry
from lodcli.kernels.rnn.cells.rglru.rglru import RGLRUCell as RGLRUCell
from lodcli.kernels.rnn.cells.rglru.rglru import RGLRUWeights as RGLRUWeights
from lodcli.kernels.rnn.cells.s5.s5 import S5Cell as S5Cell
from lodcli.kernels.rnn.cells.s5.s5 import S5Weights as S5Weights
from lodcli.kernels.rnn.cells.slstm.slstm import SLSTMCell as SLSTMCell
from lodcli.kernels.rnn.cells.slstm.slstm import SLSTMWeights as SLSTMWeights
from lodcli.kernels.rnn.cells.weights import LayerWeights as LayerWeights
from lodcli.kernels.rnn.cells.weights import Sizes as Sizes
from lodcli.kernels.rnn.engine.engine import RNNGradients as RNNGradients
from lodcli.kernels.rnn.engine.engine import RNNResult as RNNResult
from lodcli.kernels.rnn.engine.engine import RNNTape as RNNTape
from lodcli.kernels.rnn.engine.engine import States as States
from lodcli.kernels.rnn.engine.engine import rnn_backward as rnn_backward
from lodcli.kernels.rnn.engine.engine import rnn_forward as rnn_forward
from lodcli.kernels.rnn.loops.attention_lstm import AttentionLSTMResult as AttentionLSTMResult
from lodcli.kernels.rnn.loops.attention_lstm import AttentionLSTMWeights as AttentionLSTMWeights
from lodcli.kernels.rnn.loops.attention_lstm import attention_lstm as attention_lstm
from lodcli.kernels.rnn.loops.dynamic_rnn import DynamicOutput as DynamicOutput
from lodcli.kernels.rnn.loops.dynamic_rnn import DynamicRNN as DynamicRNN
from lodcli.kernels.rnn.loops.while_loop import Var as Var
from lodcli.kernels.rnn.loops.while_loop import WhileLoop as WhileLoop
from lodcli.kernels.rnn.loops.while_loop import while_loop as while_loop
from lodcli.kernels.rnn.nested.backward import LevelGradients as LevelGradients
from lodcli.kernels.rnn.nested.backward import NestedGradients as NestedGradients
from lodcli.kernels.rnn.nested.backward import nested_backward as nested_backward
from lodcli.kernels.rnn.nested.initial_states import Boot as Boot
from lodcli.kernels.rnn.nested.nested import NestedLevel as NestedLevel
from lodcli.kernels.rnn.nested.nested import NestedResult as NestedResult
from lodcli.kernels.rnn.nested.nested import NestedRNN as NestedRNN
from lodcli.kernels.rnn.nested.nested import NestedTape as NestedTape
from lodcli.kernels.rnn.nested.nested import nested_forward as nested_forward
from lodcli.kernels.rnn.nested.run import NestedOutput as NestedOutput
from lodcli.kernels.rnn.nested.run import run_nested as run_nested
from lodcli.kernels.rnn.nested.state_dict import LevelShape as LevelShape
from lodcli.kernels.rnn.nested.state_dict import nested_from_state_dict as nested_from_state_dict
from lodcli.kernels.rnn.nested.state_dict import nested_state_dict as nested_state_dict
from lodcli.kernels.rnn.nested.state_dict import seeded_nested as seeded_nested
from lodcli.kernels.rnn.stack.chunked import Chunk as Chunk
from lodcli.kernels.rnn.stack.chunked import Chunking as Chunking
from lodcli.kernels.rnn.stack.chunked import Chunks as Chunks
from lodcli.kernels.rnn.stack.chunked import chunked_forward as chunked_forward
from lodcli.kernels.rnn.stack.embedding import embed as embed
from lodcli.kernels.rnn.stack.embedding import embed_grad as embed_grad
from lodcli.kernels.rnn.stack.paddle_layout import gru_from_paddle as gru_from_paddle
from lodcli.kernels.rnn.stack.paddle_layout import gru_to_paddle as gru_to_paddle
from lodcli.kernels.rnn.stack.paddle_layout import lstm_from_paddle as lstm_from_paddle
from lodcli.kernels.rnn.stack.paddle_layout import lstm_to_paddle as lstm_to_paddle
from lodcli.kernels.rnn.stack.run import RNNOutput as RNNOutput
from lodcli.kernels.rnn.stack.run import run_rnn as run_rnn
from lodcli.kernels.rnn.stack.stack import RNNWeights as RNNWeights
from lodcli.kernels.rnn.stack.stack import StackGradients as StackGradients
from lodcli.kernels.rnn.stack.stack import StackResult as StackResult
from lodcli.kernels.rnn.stack.stack import StackTape as StackTape
from lodcli.kernels.rnn.stack.stack import seeded_weights as seeded_weights
from lodcli.kernels.rnn.stack.stack import stack_backward as stack_backward
from lodcli.kernels.rnn.stack.stack import stack_forward as stack_forward
from lodcli.kernels.rnn.stack.standardization import Standardization as Standardization
from lodcli.kernels.rnn.stack.state_dict import StateDict as StateDict
from lodcli.kernels.rnn.stack.state_dict import state_dict as state_dict
from lodcli.kernels.rnn.stack.state_dict import weights_from_state_dict as weights_from_state_dict
from lodcli.kernels.rnn.training.adam import Adam as Adam
from lodcli.kernels.rnn.training.adam import AdamState as AdamState
from lodcli.kernels.rnn.training.adam import clipped as clipped
from lodcli.kernels.rnn.training.classifier import Classifier as Classifier
from lodcli.kernels.rnn.training.classifier import Scored as Scored
from lodcli.kernels.rnn.training.classifier import classifier_from_arrays as classifier_from_arrays
from lodcli.kernels.rnn.training.classifier import classifier_gradients as classifier_gradients
from lodcli.kernels.rnn.training.classifier import classify as classify
from lodcli.kernels.rnn.training.classifier import seeded_classifier as seeded_classifier
from lodcli.kernels.rnn.training.loss import Loss as Loss
from lodcli.kernels.rnn.training.loss import softmax_cross_entropy as softmax_cross_entropy
from lodcli.kernels.rnn.training.loss import squared_error as squared_error
from lodcli.kernels.rnn.training.train import Epoch as Epoch
from lodcli.kernels.rnn.training.train import Errors as Errors
from lodcli.kernels.rnn.training.train import Evaluation as Evaluation
from lodcli.kernels.rnn.training.train import Labelled as Labelled
from lodcli.kernels.rnn.training.train import Recipe as Recipe
from lodcli.kernels.rnn.training.train import accuracy as accuracy
from lodcli.kernels.rnn.training.train import evaluate as evaluate
from lodcli.kernels.rnn.training.train import prediction_errors as prediction_errors
from lodcli.kernels.rnn.training.train import train as train

__all__ = [
    "CELLS",
    "Adam",
    "AdamState",
    "AttentionLSTMResult",
    "AttentionLSTMWeights",
    "Boot",
    "Cell",
    "CellEntry",
    "CellWeights",
    "Chunk",
    "Chunking",
    "Chunks",
    "Classifier",
    "DynamicOutput",
    "DynamicRNN",
    "ElmanCell",
    "ElmanWeights",
    "Epoch",
    "Errors",
    "Evaluation",
    "GRUCell",
    "GRUWeights",
    "LRUCell",
    "LRUWeights",
    "LSTMCell",
    "LSTMWeights",
    "Labelled",
    "LayerWeights",
    "LevelGradients",
    "LevelShape",
    "LinearCell",
    "LinearWeights",
    "Loss",
    "MinGRUCell",
    "MinGRUWeights",
    "MinLSTMCell",
    "MinLSTMWeights",
    "NestedGradients",
    "NestedLevel",
    "NestedOutput",
    "NestedRNN",
    "NestedResult",
    "NestedTape",
    "PaddleGRUCell",
    "PaddleGRUWeights",
    "RGLRUCell",
    "RGLRUWeights",
    "RNNGradients",
    "RNNOutput",
    "RNNResult",
    "RNNTape",
    "RNNWeights",
    "Recipe",
    "S5Cell",
    "S5Weights",
    "SLSTMCell",
    "SLSTMWeights",
    "Scored",
    "Sizes",
    "StackGradients",
    "StackResult",
    "StackTape",
    "Standardization",
    "StateDict",
    "States",
    "Var",
    "WhileLoop",
    "accuracy",
    "attention_lstm",
    "chunked_forward",
    "classifier_from_arrays",
    "classifier_gradients",
    "classify",
    "clipped",
    "embed",
    "embed_grad",
    "evaluate",
    "gru_from_paddle",
    "gru_to_paddle",
    "lstm_from_paddle",
    "lstm_to_paddle",
    "nested_backward",
    "nested_forward",
    "nested_from_state_dict",
    "nested_state_dict",
    "prediction_errors",
    "read_weights",
    "rnn_backward",
    "rnn_forward",
    "run_nested",
    "run_rnn",
    "seeded_classifier",
    "seeded_nested",
    "seeded_weights",
    "softmax_cross_entropy",
    "squared_error",
    "stack_backward",
    "stack_forward",
    "state_dict",
    "train",
    "weights_from_state_dict",
    "while_loop",
    "write_weights",
]
