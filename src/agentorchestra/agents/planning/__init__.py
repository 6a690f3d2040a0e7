"""The parts of a planner's loop besides the step: checks of its answer, changes of course (000, app. D.2)."""
