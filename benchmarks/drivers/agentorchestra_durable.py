# venv: agentorchestra
"""AgentOrchestra over SQLite: every effect is on the disk before it acts and before its result is used."""

import _agentorchestra
import _path  # noqa: F401
import common


def build(ctx):
    """See common.py."""
    return _agentorchestra.build(ctx, common.MODEL, lambda: None)


if __name__ == "__main__":
    common.main(build)
