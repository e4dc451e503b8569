"""IGD: an auto-encoder, an interpolation critic and a Gaussian anomaly classifier, whole images and patches."""
