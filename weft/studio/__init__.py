"""The studio: a local web application that leads from a private table to a released one.

Everything that reads private rows for a release or spends budget is a `weft` command, which the studio starts as a
child process (`jobs`) in the table's folder (`workspace`), with the arguments that the page shows (`command_text`). So
a page promises no more than the command line, and its steps can be repeated without the studio.
"""
