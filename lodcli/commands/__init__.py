"""Registry of commands: one line for each file or folder, as `lod --help` lists them.

A command's module is imported only when used; the help lines are here, so `lod --help` imports
none.
"""

# title of a group: {name of a command: (module, one line of help)}
GROUPS = {
    "Look": {
        "inspect": (
            "lodcli.commands.inspect.command",
            "Show the content of a file: shapes, lengths, a drawing.",
        ),
        "view": ("lodcli.commands.view.command", "Page through the sequences on the terminal."),
        "plot": ("lodcli.commands.plot.command", "Draw lengths, padding or values to a file."),
        "diff": ("lodcli.commands.diff.command", "Show what differs between two files."),
    },
    "Choose": {
        "slice": ("lodcli.commands.slice", "Extract one sequence, or a range of them."),
        "head": ("lodcli.commands.choose.head", "Write the first items."),
        "tail": ("lodcli.commands.choose.tail", "Write the last items."),
        "filter": (
            "lodcli.commands.choose.filter",
            "Keep the items for which an expression holds.",
        ),
        "sample": ("lodcli.commands.choose.sample", "Draw items at random."),
        "shuffle": ("lodcli.commands.choose.shuffle", "Put items in a random order."),
        "sort": ("lodcli.commands.choose.sort", "Sort items by length or value."),
        "select": ("lodcli.commands.tensors.select", "Write only some tensors of a file."),
        "drop": ("lodcli.commands.tensors.drop", "Write all tensors of a file except some."),
        "rename": ("lodcli.commands.tensors.rename", "Give tensors other names."),
        "cast": ("lodcli.commands.tensors.cast", "Convert values to another dtype, checked."),
    },
    "Combine and divide": {
        "concat": ("lodcli.commands.concat.command", "Concatenate the items of several files."),
        "merge": (
            "lodcli.commands.tensors.merge",
            "Combine tensors with one index from several files.",
        ),
        "join": ("lodcli.commands.keys.join", "Join the items of two files that have equal keys."),
        "group": ("lodcli.commands.keys.group", "Put items with equal keys together as sequences."),
        "explode": ("lodcli.commands.keys.explode", "Make an item of each value of lists."),
        "split": ("lodcli.commands.split.command", "Divide the items of a file among several."),
        "shard": (
            "lodcli.commands.shard",
            "Divide a file into a dataset: a folder of shards and a manifest.",
        ),
    },
    "Compute": {
        "apply": (
            "lodcli.commands.apply.command",
            "Apply an op, such as sum or softmax, to every sequence.",
        ),
        "run-rnn": (
            "lodcli.commands.run_rnn.command",
            "Run an RNN over every sequence, without padding.",
        ),
        "train": (
            "lodcli.commands.train.command",
            "Train an RNN to classify sequences, or to predict numbers.",
        ),
        "plan": (
            "lodcli.commands.plan.command",
            "Show what batches cost, padded or packed; write packed ones.",
        ),
    },
    "Convert": {
        "convert": ("lodcli.commands.convert.command", "Convert from one format to another."),
        "weights": ("lodcli.commands.weights", "Show or convert the weights of a trained RNN."),
        "unpack": ("lodcli.commands.unpack", "Convert sequences to time steps, longest first."),
        "pack": ("lodcli.commands.pack", "Convert time steps back to sequences."),
    },
    "Check and measure": {
        "verify": ("lodcli.commands.verify.command", "Check every byte of files."),
        "bench": ("lodcli.commands.bench.command", "Benchmark lod against other libraries."),
    },
    "Shell": {
        "completion": (
            "lodcli.commands.about.completion",
            "Print the completion script of a shell.",
        ),
        "env": ("lodcli.commands.about.env", "Print the environment variables that lod reads."),
        "schema": ("lodcli.commands.about.schema", "Print the JSON Schema of what --json prints."),
    },
}
TABLE = {name: entry for group in GROUPS.values() for name, entry in group.items()}
