"""How pytables_texts.h5 was made, by PyTables 3.11: arrays of texts, of bytes and of objects."""

import tables

with tables.open_file("pytables_texts.h5", "w") as file:
    texts = file.create_vlarray("/", "texts", tables.VLUnicodeAtom(), chunkshape=4)
    big = file.create_vlarray("/", "big", tables.VLUnicodeAtom(), byteorder="big", chunkshape=4)
    strings = file.create_vlarray("/", "strings", tables.VLStringAtom(), chunkshape=4)
    objects = file.create_vlarray("/", "objects", tables.ObjectAtom(), chunkshape=4)
    for text in ("größe", "", "ab😀"):
        texts.append(text)
        big.append(text)
        strings.append(text.encode("latin1", "replace"))
        objects.append({"text": text})
