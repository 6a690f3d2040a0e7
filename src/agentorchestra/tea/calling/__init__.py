"""Tools and actions: declared, described as schemas, called."""
