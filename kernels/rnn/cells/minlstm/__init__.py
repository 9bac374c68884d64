"""minLSTM."""
