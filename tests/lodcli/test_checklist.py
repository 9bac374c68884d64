"""A checklist for command lines, with the test for each point."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

# point: file of tests, names of tests
CHECKLIST = {
    "standard output carries data only": (
        "tests/lodcli/test_json.py",
        "test_json_is_what_the_schema_says",
        "test_where_data_goes_to_standard_output_the_report_does_not",
    ),
    "- is standard input and output": (
        "tests/lodcli/commands/test_convert.py",
        "test_a_pipe_carries_every_tensor",
        "test_text_formats_go_to_standard_output",
    ),
    "pipes are framed: a cut one is an error": (
        "tests/formats/stream/test_stream.py",
        "test_a_stream_cut_anywhere_is_an_error",
    ),
    "exit codes": (
        "tests/lodcli/test_main.py",
        "test_every_error_has_its_exit_code_and_one_line",
    ),
    "no file is replaced unasked": (
        "tests/lodcli/test_bad_input.py",
        "test_an_existing_output_stays_without_force",
    ),
    "files appear whole or not at all": (
        "tests/reliability/test_reliability.py",
        "test_the_check_finds_no_fault",
        "test_every_command_with_a_target_is_in_the_table_of_faults",
    ),
    "no traceback": (
        "tests/lodcli/test_main.py",
        "test_a_bug_in_a_command_is_no_traceback",
        "test_a_traceback_is_shown_only_on_request",
    ),
    "--json and its schema": (
        "tests/lodcli/test_json.py",
        "test_every_command_takes_json",
        "test_schemas_are_listed_and_every_key_is_described",
        "test_errors_are_json_too",
    ),
    "colour": (
        "tests/lodcli/shell/test_messages.py",
        "test_the_option_goes_before_the_variables",
    ),
    "-q, -v, --version, -h": (
        "tests/lodcli/shell/test_messages.py",
        "test_every_command_takes_them",
        "test_quiet_works_before_and_behind_the_command",
        "test_verbose_tells_files_backends_and_costs",
    ),
    "completion": (
        "tests/lodcli/shell/test_complete.py",
        "test_names_of_the_file_are_offered",
    ),
    "man pages": (
        "tests/lodcli/test_manual.py",
        "test_every_command_has_a_page",
        "test_a_page_holds_every_option_and_example_of_its_command",
    ),
    "environment variables are listed": (
        "tests/lodcli/test_environment.py",
        "test_every_variable_in_the_source_is_in_the_table",
        "test_help_and_env_show_every_variable",
    ),
    "benchmarks in hyperfine's JSON": (
        "tests/lodcli/bench/test_kernels.py",
        "test_json_has_the_keys_of_hyperfine_and_ours",
    ),
    "start-up loads no more than it needs": (
        "tests/lodcli/test_main.py",
        "test_help_lists_every_command_and_loads_none",
        "test_the_help_of_commands_loads_no_numpy",
        "test_versions_are_reported",
    ),
    "an interrupt ends it at once and leaves nothing": (
        "tests/lodcli/shell/test_signals.py",
        "test_a_blocked_read_ends_at_once",
        "test_a_long_conversion_ends_at_once_and_leaves_nothing",
    ),
}


@pytest.mark.parametrize("point", CHECKLIST)
def test_every_point_has_its_test(point: str) -> None:
    file, *names = CHECKLIST[point]
    tree = ast.parse((ROOT / file).read_text())
    found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert set(names) <= found
