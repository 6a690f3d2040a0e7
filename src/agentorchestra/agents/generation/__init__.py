"""The steps of making a tool: specification, structure, trials, registration (000, app. D.6; 001, 3.3.4)."""
