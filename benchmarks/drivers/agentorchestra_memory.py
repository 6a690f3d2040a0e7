# venv: agentorchestra
"""AgentOrchestra over the memory engine: one workspace for all tasks, with log, budget and default policy."""

import _agentorchestra
import _path  # noqa: F401
import common

from agentorchestra.log.store import MemoryStore


def build(ctx):
    """See common.py."""
    return _agentorchestra.build(ctx, common.MODEL, lambda: MemoryStore())


if __name__ == "__main__":
    common.main(build)
