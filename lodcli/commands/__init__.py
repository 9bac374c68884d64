"""The commands, one line each: a command is one file here and one line in this table.

Their modules load only when used; the help is here, so that `lod --help` loads none.
"""

# name: (module, one line of help)
TABLE = {
    "inspect": (
        "lodcli.commands.inspect.command",
        "Show what a file holds: shapes, lengths, a drawing.",
    ),
    "slice": ("lodcli.commands.slice", "Cut out one sequence, or a range of them."),
    "convert": ("lodcli.commands.convert", "Turn one format into another."),
    "concat": ("lodcli.commands.concat.command", "Put several batches one after another."),
    "unpack": ("lodcli.commands.unpack", "Turn sequences into time steps, longest first."),
    "pack": ("lodcli.commands.pack", "Turn time steps back into sequences."),
    "apply": (
        "lodcli.commands.apply.command",
        "Apply an op, such as sum or softmax, to every sequence.",
    ),
    "run-rnn": (
        "lodcli.commands.run_rnn.command",
        "Run an RNN over every sequence, without padding.",
    ),
    "bench": (
        "lodcli.commands.bench.command",
        "Time lod beside other libraries, and their agreement.",
    ),
    "train": ("lodcli.commands.train.command", "Train an RNN that tells the classes of sequences."),
    "weights": ("lodcli.commands.weights", "Show or convert the weights of a trained RNN."),
    "verify": ("lodcli.commands.verify", "Check every byte of files."),
    "completion": ("lodcli.commands.completion", "Print the completion script of a shell."),
}
