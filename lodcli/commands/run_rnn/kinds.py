"""The results that `lod run-rnn --emit` names."""

STATES = ("all", "last", "both")
# Of a model of `lod train`: of one that classifies, or of one that predicts values.
CLASSES = ("class", "scores", "value")
