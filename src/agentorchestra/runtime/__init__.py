"""The door and the log: sessions, ledger, budgets, policy, mail, environments, engines, store."""
