"""`lod convert`: convert from one format to another."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

import click

from lodcli.formats.core.options import TEXT_LEVELS, ReadKeywords, ReadOptions, read_options
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import SelectionError
from lodcli.shell import options
from lodcli.shell.limits import reading
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target

if TYPE_CHECKING:
    from lodcli.formats.core.schema import Batch, Schema


class _Convert(options.Command):
    """The command; with --formats it takes no SOURCE."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--formats" in args and not ctx.resilient_parsing:
            from lodcli.commands.convert import listing

            rest = [arg for arg in args if arg != "--formats"]
            with listing.command.make_context("convert", rest, parent=ctx.parent) as inner:
                listing.command.invoke(inner)
            ctx.exit()
        return super().parse_args(ctx, args)

    def misplaced(self, args: list[str]) -> str:
        files = [quote(arg) for arg in args if Path(arg).is_file()]
        if len(files) < 2:
            return ""
        return f"; convert reads one file: lod concat {' '.join(files)} -o OUT joins several"


@click.command(cls=_Convert)
@options.source
@click.argument("out_argument", metavar="[OUT]", required=False, type=options.SOURCE)
@options.target
@options.shard_jobs
@click.option(
    "--dry-run",
    is_flag=True,
    help="Write nothing; print what OUT would lose, or why it cannot be written (exit code 4).",
)
@click.option(
    "--formats",
    is_flag=True,
    expose_value=False,
    help="List all formats with their capabilities and required packages.",
)
@click.option(
    "--levels",
    type=options.NAMES,
    metavar="NAMES",
    help="Name the levels, outermost first: a,b,c. Inner ones without a name become axes of rows.",
)
@click.option(
    "--name",
    metavar="NAME",
    callback=options.new_name,
    help="Name of the (only) tensor in OUT.",
)
@click.option(
    "--vocab",
    "vocabulary",
    type=options.NamedPath(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Vocabulary file, one word per line: converts text to word numbers, and back.",
)
@click.option(
    "--columns",
    type=options.NAMES,
    metavar="NAMES",
    help="Read only these tensors, columns or fields, in this order: a,b.",
)
@click.option(
    "--rename",
    multiple=True,
    metavar="OLD=NEW",
    help="Rename a tensor, column or field; repeat for each.",
)
@click.option(
    "--field",
    multiple=True,
    metavar="NAME",
    help="Read only this field or column of a format of records; repeat for each. --columns works "
    "with every format.",
)
@click.option(
    "--dtype",
    type=click.Choice(sorted(ALL_DTYPES)),
    metavar="DTYPE",
    help="The dtype of all numbers, such as float32; a value that is not exact in it is an error.",
)
@click.option("--dtype-unsafe", is_flag=True, help="Round numbers to --dtype.")
@click.option(
    "--text-levels",
    type=click.Choice(TEXT_LEVELS),
    help="Mark sequences of uint8 as text (UTF-8) or bytes, or convert text to the numbers of its "
    "bytes.",
)
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="NAME=TEXT",
    help="Set an attribute of the file, such as license=MIT; NAME= drops one; repeat for each.",
)
@click.option(
    "--data",
    metavar="PATH",
    help="Dataset of the rows in plain HDF5; arrays of rows in npz and safetensors: a,b; or a "
    "pattern of arrays, each of which is one sequence: 'demo_*/x'.",
)
@click.option(
    "--offsets",
    multiple=True,
    metavar="PATH",
    help="Dataset or array of offsets; repeat for each level.",
)
@click.option(
    "--lengths",
    multiple=True,
    metavar="PATH",
    help="Dataset or array of lengths; repeat for each level.",
)
@click.option(
    "--names",
    type=options.NAMES,
    metavar="NAMES",
    help="Names for the tensors of a Paddle file: a,b.",
)
@click.option(
    "--cu-seqlens",
    type=options.NAMES,
    metavar="NAMES",
    help="Write npz or safetensors with int32 offsets in arrays of these names.",
)
@click.option(
    "--index-dtype",
    type=click.Choice(("int32", "int64")),
    help="The dtype of the offsets in npz and safetensors.",
)
@click.option(
    "--form",
    type=options.Form(("nested", "packed", "padded", "list", "flat")),
    help="Layout of sequences in a .pt file [default: flat].",
)
@click.option(
    "--wide", is_flag=True, help="Read and write rows of several numbers as columns of csv."
)
@click.option("--end-token", type=int, metavar="N", help="In a token file, N ends a document.")
@click.option("--start-token", type=int, metavar="N", help="In a token file, N begins a document.")
def command(
    source: Reference,
    target: Target,
    dry_run: bool,
    name: str | None,
    vocabulary: Path | None,
    columns: tuple[str, ...] | None,
    rename: tuple[str, ...],
    attributes: tuple[str, ...],
    cu_seqlens: tuple[str, ...] | None,
    index_dtype: str | None,
    form: str | None,
    **given: Any,
) -> None:
    """Convert SOURCE to OUT in batches; formats are detected from content and names.

    \b
    Examples:
      lod convert articles.txt words.lod.h5
      lod convert articles.txt numbers.lod.h5 --vocab words.txt --levels article,sentence
      lod convert vowels.ts vowels.npz
      lod convert events.jsonl events.lod.h5 --levels day,hour --dtype int16
      lod convert vowels.ts small.lod.h5 --dtype float32 --dtype-unsafe
      lod convert visits.csv visits.lod.h5 --levels user,visit --columns value
      lod convert chat.parquet chat.lod.h5 --columns ids,text --rename ids=tokens
      lod convert events.jsonl.gz events.npz
      lod convert articles.lod.h5 small.lod.h5 --compress
      lod convert packed.npz frames.lod.h5 --data frames --offsets cu_seqlens
      lod convert articles.lod.h5 articles.lodt
      lod convert articles.lod.h5 articles_saved --to datasets
      cat events.jsonl | lod convert - --from jsonl | lod inspect -
      lod convert vowels.ts vowels.lod.h5 --attribute license=CC-BY-4.0
      lod convert events.lod.h5 events.csv --dry-run
      lod convert shards packed-shards --compress --jobs 2
      lod convert shards packed-shards --compress --scheduler local
      lod convert --formats
    """
    new_names = options.new_names(rename)
    changed = _attributes(attributes)
    if source.name is not None and (columns is not None or rename):
        if columns is not None:
            raise click.UsageError("give a tensor as FILE::NAME or with --columns, not both")
        columns = (source.name,)
        source = dataclasses.replace(source, name=None)
    keywords = {**given, "vocabulary": vocabulary, "columns": columns, "rename": new_names}
    chosen = reading(read_options(None, cast("ReadKeywords", keywords)))
    target = target.with_options(cu_seqlens=cu_seqlens, index_dtype=index_dtype, form=form)
    # Options that OUT takes, such as --vocab for text: the format of SOURCE may ignore them.
    either = frozenset(
        {"vocabulary", "end_token", "start_token", "separator", "decimal_comma", "wide"}
    )
    spared = either & target.kind.write_options
    target = target.with_options(**{name: getattr(chosen, name) for name in spared})
    if dry_run or not target.shard_option:
        _convert(source, target, chosen, spared, name, changed, dry_run=dry_run)
        return
    from lodcli.shell.jobs.by_shards import by_shards

    files = [vocabulary] if vocabulary else []
    by_shards(_convert, source, target, chosen, spared, name, changed, files=files)


def _convert(
    source: Reference,
    target: Target,
    chosen: ReadOptions,
    spared: frozenset[str],
    name: str | None,
    changed: Mapping[str, str],
    *,
    dry_run: bool = False,
) -> None:
    """Write the source to the target, with the changed attributes; or show the losses."""
    from lodcli.shell.opened import opened

    with opened(source, chosen, spared) as file:
        schema, batches = file.schema, file.batches()
        if name is not None:
            schema, batches = _renamed(schema, batches, name)
        if changed:
            target = target.with_options(attributes=_changed(file.source.attributes, changed))
        if dry_run:
            from lodcli.commands.convert.planning import show_plan

            show_plan(target, schema, batches)
        # Under its own names the open file may be copied as a whole.
        target.write(schema, batches, file.read_share, file if name is None else None)


def _attributes(given: tuple[str, ...]) -> dict[str, str]:
    """Return attributes given as NAME=TEXT."""
    pairs = [one.partition("=") for one in given]
    for name, equals, text in pairs:
        if not name or not equals:
            raise click.BadParameter(
                f"{name!r}: expected NAME=TEXT, or NAME= to drop it", param_hint="--attribute"
            )
        try:
            (name + text).encode()
        except UnicodeEncodeError as error:
            found = ascii(error.object[error.start])
            raise click.BadParameter(
                f"{name!r}: expected UTF-8, found {found}", param_hint="--attribute"
            ) from None
    return {name: text for name, _, text in pairs}


def _changed(attributes: Mapping[str, Any], changed: Mapping[str, str]) -> str:
    """Return attributes of a file as text, with some set, and those without text dropped."""
    from lodcli.kernels.tensor.marks import attributes_text

    kept = {**attributes, **changed}
    return attributes_text({k: v for k, v in kept.items() if changed.get(k) != ""})


def _renamed(schema: Schema, batches: Iterator[Batch], name: str) -> tuple[Schema, Iterator[Batch]]:
    """Return one tensor under another name."""
    if len(schema) != 1:
        raise SelectionError(
            f"--name is for one tensor, found {len(schema)}; choose one with ::NAME"
        )
    old = schema[0].name
    return (dataclasses.replace(schema[0], name=name),), ({name: batch[old]} for batch in batches)
