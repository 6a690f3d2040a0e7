"""Who may do what: policy, provenance, approvals, and secrets that never reach the log."""
