"""The one append-only log: the store, the ledger that resumes and replays read, forks, bundles."""
