"""Where code that a model wrote may run: one interface, several backends."""

from agentorchestra.runtime.sandbox.base import POSITIONAL, HostCall, Program, Ran, Sandbox, SandboxLimits

__all__ = ["POSITIONAL", "HostCall", "Program", "Ran", "Sandbox", "SandboxLimits"]
