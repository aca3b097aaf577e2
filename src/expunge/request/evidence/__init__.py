"""What a request can show: the evidence, its verdict, and the bundle that holds them."""
