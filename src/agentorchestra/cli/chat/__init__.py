"""`agentorchestra chat`: a conversation at a terminal; each turn is a run of a session."""
