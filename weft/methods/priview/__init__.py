"""PriView (SIGMOD 2014): the method, and its model of views."""
