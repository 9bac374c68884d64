"""Make fasta/: what Biopython writes, and what it reads of that. Needs biopython.

python tests/formats/theirs/make_fasta.py
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path

HERE = Path(__file__).parent / "fasta"
RECORDS = {
    "NM_000207.3 Homo sapiens insulin (INS), mRNA": "AGCCCTCCAGGACAGGCTGCATCAGAAGAGGCCATCAAGCAG"
    * 7,
    "sp|P01308|INS_HUMAN Insulin": "MALWMRLLPLLALLALWGPDPAAAFVNQHLCGSHLVEALYLVCGERGFF*",
    "exactly_60": "ACGT" * 15,
    "gaps": "AC--GT..N",
    "empty": "",
    "Grüße Straße": "acgtryswkmbdhvn",
}


def main() -> None:
    """Write the file, and the records that it has."""
    seq = importlib.import_module("Bio.Seq").Seq
    record = importlib.import_module("Bio.SeqRecord").SeqRecord
    seq_io = importlib.import_module("Bio.SeqIO")
    records = [
        record(seq(letters), id=title.split()[0], description=title)
        for title, letters in RECORDS.items()
    ]
    HERE.mkdir(exist_ok=True)
    path = HERE / "biopython.fasta"
    with path.open("w", encoding="utf-8", newline="\n") as file:
        seq_io.write(records, file, "fasta")
    with path.open(encoding="utf-8") as file:
        found = [[one.description, str(one.seq)] for one in seq_io.parse(file, "fasta")]
    (HERE / "records.json").write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
