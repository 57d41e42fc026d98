"""Steps that several recipes share."""
