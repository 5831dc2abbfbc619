"""Parts of the bounds of attention, a module for each source of error."""
