"""Calculations: interest on interest, the digits of a large power, the end of a journey."""

from __future__ import annotations

import random
from pathlib import Path

from .task import Task, is_number, names, says


def interest(chance: random.Random, folder: Path) -> Task:
    """Compound interest over years."""
    amount = chance.randint(1_000, 9_000)
    percent = chance.choice([1.25, 1.5, 1.75, 2.25, 2.5, 2.75, 3.25, 3.5])
    years = chance.randint(6, 25)
    instruction = (
        f"A deposit of {amount:,} euros earns {percent} percent interest a year, which is added to it at the end of "
        f"each year. How many euros is it worth after {years} years? Round to two decimal places and answer with the "
        "number alone."
    )
    right = round(amount * (1 + percent / 100) ** years, 2)
    return Task("calculation", "interest", instruction, is_number(right, places=2))


def digits(chance: random.Random, folder: Path) -> Task:
    """The sum of the digits of a number that is too long to be written down."""
    base, power = chance.randint(3, 19), chance.randint(80, 240)
    instruction = f"What is the sum of the digits of {base} to the power of {power}? Answer with the number alone."
    right = sum(int(digit) for digit in str(base**power))
    return Task("calculation", "digits", instruction, is_number(right))


def arrival(chance: random.Random, folder: Path) -> Task:
    """A time of day after a journey whose length is given by distance and speed, with a stop."""
    here, there = names(chance, 2)
    minutes = chance.randint(95, 420)
    speed = 60 * chance.randint(1, 2)
    stop = chance.randint(6, 44)
    start = chance.randint(5 * 60, 11 * 60)
    end = start + minutes + stop
    instruction = (
        f"A train leaves {here} at {_clock(start)}. To {there} it has {minutes * speed // 60} km to go at "
        f"{speed} km per hour, and on the way it stops once for {stop} minutes. At what time does it arrive? "
        "Answer with the time alone, as hh:mm."
    )
    return Task("calculation", "arrival", instruction, says(_clock(end)))


def _clock(minutes: int) -> str:
    """Return minutes since midnight as hh:mm."""
    return f"{minutes // 60:02}:{minutes % 60:02}"
