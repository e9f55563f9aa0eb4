"""What things cost: pure functions of broadcasting arrays, one formula each."""
