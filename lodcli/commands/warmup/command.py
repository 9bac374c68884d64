"""`lod warmup`: compile ahead what would be compiled at its first use."""

from __future__ import annotations

from typing import Any

import click

from lodcli.shell import options, output


@click.command(cls=options.Command)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--clear", is_flag=True, help="Delete what is compiled, and compile nothing.")
@options.as_json
@options.quiet
def command(names: tuple[str, ...], clear: bool, as_json: bool) -> None:
    """Compile all kernels for this processor, or only those of some ops, and keep them.

    Otherwise each is compiled when large input first needs it, which takes seconds. A NAME is
    that of an op, rnn for the recurrent layers, or jsonl for reading JSON lines. Numbers are
    float32, float64, int32 and int64; what is there already is only loaded. The folder is
    ~/.cache/lod/numba, in $XDG_CACHE_HOME if that is set, or $NUMBA_CACHE_DIR.

    \b
    Examples:
      lod warmup
      lod warmup softmax rnn --json
      lod warmup --clear
    """
    from lodcli.commands.warmup.kernels import compiled

    if clear and names:
        raise click.UsageError("--clear deletes everything; leave the names out")
    done = [] if clear else compiled(names)
    from lodcli.kernels.runtime import numba_cache as cache

    freed = cache.clear() if clear else 0
    held, size = str(cache.folder()), cache.size_bytes()
    if as_json:
        found: dict[str, Any] = {"compiled": done, "freed_bytes": freed}
        output.as_json({**found, "cache": held, "cache_bytes": size})
    elif clear:
        output.text(f"{held}: {output.size_text(freed)} deleted")
    else:
        seconds = sum(one["seconds"] for one in done)
        output.text(f"{output.plural(len(done), 'kernel')} ready in {seconds:.1f} s")
        output.text(f"{held}: {output.size_text(size)}")
