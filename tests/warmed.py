"""What most processes of the tests import: the parent of those in `tests.warm` has it before they begin."""

from __future__ import annotations

import agentorchestra.cli.commands.replay
import agentorchestra.cli.commands.resume
import agentorchestra.cli.commands.run
import agentorchestra.cli.commands.show
import agentorchestra.environments.browser.environment
import agentorchestra.environments.computer.environment
import agentorchestra.environments.files
import agentorchestra.environments.git
import agentorchestra.environments.github
import agentorchestra.environments.report.environment
import agentorchestra.environments.terminal
import agentorchestra.runtime.store.choose
import agentorchestra.testing
import agentorchestra.tools.registry
import agentorchestra.workspace.workspace  # noqa: F401
