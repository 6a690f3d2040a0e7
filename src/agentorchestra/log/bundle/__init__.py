"""Runs carried to another machine: one file with everything that a replay needs (docs/bundles.md).

format.py    what stands in a bundle, and its limits
lines.py     events as lines of JSON, and back
origin.py    what is said of the machine a bundle was made on
secrets.py   refuses to write what must not leave the machine
writing.py   a run into a bundle
checking.py  everything that is checked before anything is written
reading.py   a bundle, or a file of events, into a store
"""
