"""The Clusters tab: two-dimensional maps of an encoder's features by epoch, and metrics of class separation."""
