"""Runs carried to another machine: one file with everything that a replay needs (docs/bundles.md).

format.py      what stands in a bundle, and its limits
lines.py       events as lines of JSON, and back
origin.py      what is said of the machine a bundle was made on
secrets.py     refuses to write what must not leave the machine
exporter.py    a run into a bundle
checks.py      everything that is checked of a bundle before anything is written
log_checks.py  the same of a log
importer.py    a bundle, or a file of events, into a store
"""
