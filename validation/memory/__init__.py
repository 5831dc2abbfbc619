"""What proves elastic memory: failing driver calls, traces against a model, byte ledgers, a run on a card."""
