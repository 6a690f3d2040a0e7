"""Converters, one for each format. These modules run inside `_worker.py`, in a process with limits.

They import nothing of the package outside this folder, and other libraries only where they are used; `sniff` and
`text`, which need the standard library alone, are used by the caller's process too.

A converter gives a document as JSON has it: {"kind": "text" | "table" | "pdf" | "parts", ...} (documents.py).
"""
