"""A tool with two mistakes, which the tests have evolved."""

from agentorchestra import tool


@tool(effect="pure")
def cents_of(euros: float) -> int:
    """Convert an amount of euros into cents.

    Args:
        euros: the amount.
    """
    if euros < 50:
        return round(euros * 10)  # a euro has 100 of them
    return round(euros * 1000)
