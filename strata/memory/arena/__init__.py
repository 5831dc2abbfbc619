"""Address ranges whose pieces are mapped and unmapped, so that their memory can be given away and taken back."""
