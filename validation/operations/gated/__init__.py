"""Operations on elements: gated activations, soft capping and residual sums."""
