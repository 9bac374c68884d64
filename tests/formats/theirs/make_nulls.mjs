// Write nulls.arrow with apache-arrow 21 and nulls.parquet with parquet-wasm 0.8: node make_nulls.mjs
//
// Both declare the column of nulls as not nullable.
import { writeFileSync } from "node:fs";
import { Dictionary, Int32, Null, Table, Utf8, tableToIPC, vectorFromArray } from "apache-arrow";
import { Table as Wasm, writeParquet } from "parquet-wasm";

const table = new Table({
  n: vectorFromArray([null, null], new Null()),
  word: vectorFromArray(["a", "b"], new Dictionary(new Utf8(), new Int32())),
});
writeFileSync("nulls.arrow", tableToIPC(table, "file"));
writeFileSync("nulls.parquet", writeParquet(Wasm.fromIPCStream(tableToIPC(table, "stream"))));
