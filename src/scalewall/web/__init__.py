"""The interactive page: a visitor's entries in, what `study` answers and `present` draws out."""
