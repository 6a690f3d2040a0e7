"""Where code that a model wrote may run: one interface, several backends."""

from agentorchestra.runtime.sandbox.base import HostCall, Program, Ran, Sandbox, SandboxLimits

__all__ = ["HostCall", "Program", "Ran", "Sandbox", "SandboxLimits"]
