"""Model files: read again, and edited by somebody."""

import io
import json
import zipfile


def reloaded(model, **options):
    """The same from its file."""
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    return type(model).load(file, **options)


def rewritten(path, change):
    """The file with its entries, a dict of bytes, changed."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    entries = change(entries) or entries
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def with_header(path, change):
    """The file with its header, as JSON makes it, changed."""

    def edit(entries):
        header = json.loads(entries["header.json"])
        entries["header.json"] = json.dumps(change(header)).encode()

    return rewritten(path, edit)
