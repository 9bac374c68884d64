"""The sLSTM cell."""
