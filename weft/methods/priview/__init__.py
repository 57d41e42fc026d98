"""PriView (SIGMOD 2014): the method, and its views as a model."""
