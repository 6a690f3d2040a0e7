"""What a planner's loop is made of besides the step: checks of its answer, changes of course (000, app. D.2)."""
