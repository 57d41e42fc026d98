"""Releases: write a synthetic table with its card and metadata, and verify the files of a release."""
