"""What the memory code asks of a driver, the driver of a card, and one without a card whose calls can fail."""
