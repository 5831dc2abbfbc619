"""The router: softmax over experts and the top of them."""
