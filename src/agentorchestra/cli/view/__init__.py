"""What a run looks like: a model of it made from its log, and its pictures for terminals and browsers."""
