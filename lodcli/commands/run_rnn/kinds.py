"""The results that `lod run-rnn --emit` names."""

STATES = ("all", "last", "both")
# Of a classifier, a model of `lod train`.
CLASSES = ("class", "scores")
