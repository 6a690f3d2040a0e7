"""`agentorchestra components` and its short forms."""
