"""What fits on a card that need not be here: `strata memory plan`."""
