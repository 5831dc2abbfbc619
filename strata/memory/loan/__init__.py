"""Cache memory given away for a while: to another process, or to the prompt path for one prompt."""
