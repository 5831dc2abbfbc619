"""What proves elastic memory: every driver call failing, random traces against a model, byte ledgers, a run on a card."""
