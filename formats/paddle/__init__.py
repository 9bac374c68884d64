"""PaddlePaddle's files of one LoDTensor."""
