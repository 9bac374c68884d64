"""parquet: encrypted files, as pyarrow writes them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from lodcli.formats.core import io
from lodcli.kernels.errors import UnsupportedError
from tests.formats.cases.opening import content

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def written_encrypted(path: Path, table: Any, *, plaintext_footer: bool) -> Path:
    """Write a table with its column `secret` encrypted."""
    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    class Keys(encryption.KmsClient):  # type: ignore[misc, name-defined]
        def __init__(self, _: Any) -> None:
            encryption.KmsClient.__init__(self)

        def wrap_key(self, key: bytes, _: str) -> bytes:
            return base64.b64encode(key)

        def unwrap_key(self, key: bytes, _: str) -> bytes:
            return base64.b64decode(key)

    made = encryption.CryptoFactory(Keys).file_encryption_properties(
        encryption.KmsConnectionConfig(),
        encryption.EncryptionConfiguration(
            footer_key="one", column_keys={"two": ["secret"]}, plaintext_footer=plaintext_footer
        ),
    )
    with pq.ParquetWriter(path, table.schema, encryption_properties=made) as writer:
        writer.write_table(table)
    return path


def test_an_encrypted_column_is_no_damage(tmp_path: Path) -> None:
    table = pa.table({"secret": [1, 2], "open": [[3], [4, 5]]})
    path = written_encrypted(tmp_path / "x.parquet", table, plaintext_footer=True)
    with pytest.raises(UnsupportedError, match=r"column 'secret': is encrypted.*--field"):
        content(path)
    assert content(path, field=("open",))["open"].to_list() == [[3], [4, 5]]
    with io.open_source(path, skip_unsupported=True) as source:
        assert [spec.name for spec in source.schema] == ["open"]
        assert list(source.left_out) == ["secret"]


def test_an_encrypted_footer_is_no_damage(tmp_path: Path) -> None:
    table = pa.table({"secret": [1, 2], "open": [[3], [4, 5]]})
    path = written_encrypted(tmp_path / "x.parquet", table, plaintext_footer=False)
    with pytest.raises(UnsupportedError, match="is encrypted"):
        content(path)
    path.rename(tmp_path / "without_extension")
    with pytest.raises(UnsupportedError, match="is encrypted"):
        content(tmp_path / "without_extension")
