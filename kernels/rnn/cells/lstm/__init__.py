"""The LSTM cell, with peepholes and projection."""
